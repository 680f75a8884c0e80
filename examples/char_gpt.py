"""A GPT that learns Python's own help texts letter by letter: dense, and with half layers.

One call puts half layers into its attention and feed-forward parts. Prints the bits a letter that
each needs on held-out text, and what the half one writes.
"""

import math
import time
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.nn import functional as F

import halfnet

WIDTH, DEPTH, HEADS, CONTEXT, BATCH, STEPS, RANK = 96, 2, 4, 64, 32, 800, 16


class GPT(nn.Module):
    """A decoder of torch's own layers: nothing in it knows of half layers."""

    def __init__(self, letters):
        super().__init__()
        self.letter, self.place = nn.Embedding(letters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        block = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, DEPTH, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, letters))

    def forward(self, text):
        """Return each letter's logits, from those before it."""
        n = text.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        x = self.letter(text) + self.place(torch.arange(n))
        return self.head(self.blocks(x, mask=mask, is_causal=True))


def loss(model, text, starts):
    pieces = torch.stack([text[i : i + CONTEXT + 1] for i in starts])
    return F.cross_entropy(model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())


def train(model, text):
    """Train by Adam, and return the bits a letter on the last tenth of the text."""
    cut = len(text) * 9 // 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    rate = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model, text, torch.randint(cut - CONTEXT, (BATCH,))).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rate.step()
    held_out = torch.arange(cut, len(text) - CONTEXT - 1, CONTEXT)[:200]
    with torch.no_grad():
        return loss(model.eval(), text, held_out).item() / math.log(2)


def write(model, letters, start, length):
    text = [letters.index(letter) for letter in start]
    with torch.no_grad(), halfnet.frozen(model):
        for _ in range(length):
            logits = model(torch.tensor([text[-CONTEXT:]]))[0, -1]
            text.append(torch.multinomial((logits / 0.7).softmax(0), 1).item())
    return "".join(letters[i] for i in text)


def main():
    corpus = "\n".join(topics[name] for name in sorted(topics))
    letters = sorted(set(corpus))
    text = torch.tensor([letters.index(letter) for letter in corpus])
    print(f"{len(corpus):,} letters, {len(letters)} different ones")
    for kind in ("dense", "half"):
        torch.manual_seed(0)
        model = GPT(len(letters))
        if kind == "half":
            halfnet.convert_(model, RANK, include="blocks.*", seed=0)
        begun = time.perf_counter()
        bits = train(model, text)
        learned = sum(p.numel() for p in model.parameters())
        seconds = time.perf_counter() - begun
        print(f"{kind}: {learned:,} learned, {bits:.2f} bits a letter ({seconds:.0f} s)")
    print(write(model, letters, "The ", 200))


if __name__ == "__main__":
    main()
