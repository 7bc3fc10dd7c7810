"""Five modules as their users write them, with nothing of posattn inside, to be measured in fleets."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(inputs: int = 16, width: int = 64, outputs: int = 1) -> nn.Module:
    """Three hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    )


class Encoder(nn.Module):
    """PyTorch's own Transformer encoder between two linear maps."""

    def __init__(
        self, tokens: int = 16, width: int = 64, heads: int = 4, layers: int = 2, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.read = nn.Linear(1, width)
        self.place = nn.Parameter(0.02 * torch.randn(tokens, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers)
        self.write = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self.encoder(self.read(x) + self.place))


class GRU(nn.Module):
    """A gated recurrent unit, written out, one step after the other."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.gates = nn.Linear(1 + width, 2 * width)
        self.candidate = nn.Linear(1 + width, width)
        self.write = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(x.shape[0], self.width, device=x.device, dtype=x.dtype)
        outputs = []
        for step in range(x.shape[1]):
            reset, update = torch.sigmoid(self.gates(torch.cat([x[:, step], h], dim=1))).chunk(2, dim=1)
            proposed = torch.tanh(self.candidate(torch.cat([x[:, step], reset * h], dim=1)))
            h = update * h + (1 - update) * proposed
            outputs.append(self.write(h))
        return torch.stack(outputs, dim=1)


class ConvNet(nn.Module):
    """Three convolutions with group norm, then the mean over the image."""

    def __init__(self, channels: int = 3, width: int = 32, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1)
        self.norm1 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm2 = nn.GroupNorm(4, width)
        self.conv3 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.norm3 = nn.GroupNorm(4, width)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm1(self.conv1(x)))
        x = F.relu(self.norm2(self.conv2(x)))
        x = F.relu(self.norm3(self.conv3(x)))
        return self.head(x.mean(dim=(2, 3)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (a.view(batch, tokens, self.heads, width // self.heads).transpose(1, 2) for a in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.drop(self.mix(y.transpose(1, 2).contiguous().view(batch, tokens, width)))
        return x + self.drop(self.mlp(self.norm2(x)))


class CharGPT(nn.Module):
    """A small GPT over characters, with tied embedding and head."""

    def __init__(
        self,
        characters: int = 65,
        tokens: int = 32,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(characters, width)
        self.place = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters, bias=False)
        self.head.weight = self.token.weight
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02 if module is not self.head else 1 / math.sqrt(width))

    def forward(self, codes: Tensor) -> Tensor:
        x = self.token(codes) + self.place(torch.arange(codes.shape[1], device=codes.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
