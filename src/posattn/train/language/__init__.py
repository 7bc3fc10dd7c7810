"""Pretrained language models, fine-tuned on the mixed-type tasks."""
