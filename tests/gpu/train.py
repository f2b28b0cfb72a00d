"""An ordinary PyTorch training that knows nothing of fairlead: a large table of embeddings and a network over it, all on the GPU.

    train.py GIB STEPS

Every step reads and writes rows of the table, so that a loss depends on what the memory holds. Losses are printed exactly.
"""

import sys

import torch

gib, steps = float(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(1)
width, batch = 1024, 8192
table = torch.empty(int(gib * 2**30 / 4 / width), width, device="cuda").normal_()
model = torch.nn.Sequential(torch.nn.Linear(width, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1)).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(steps):
    first = step * 7 * batch % (len(table) - batch)
    rows = table[first : first + batch].clone().requires_grad_()
    loss = ((model(rows) - rows[:, :8].sum(1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    table[first : first + batch] -= 10.0 * rows.grad
    print("step", step, loss.item().hex(), flush=True)
print("done", flush=True)
