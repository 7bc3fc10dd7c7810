// Browsers refuse workers on pages that are opened as files. For the search, a hidden frame stands in for one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.body.appendChild(document.createElement("iframe"));
      frame.hidden = true;
      this.frame = frame.contentWindow;
      this.frame.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.frame.importScripts = async (...urls) => { for (const one of urls) await this.load(one); };
      this.ready = this.load(url);
    }
    load(url) {
      return new Promise(loaded => {
        const script = this.frame.document.createElement("script");
        script.src = url;
        script.onload = loaded;
        this.frame.document.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.frame.dispatchEvent(new this.frame.MessageEvent("message", { data })));
    }
  };
}
