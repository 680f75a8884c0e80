"""One of two processes that train a half model by DistributedDataParallel: see test_distributed."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import halfnet


def main(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    torch.manual_seed(100 + rank)
    model = nn.Sequential(
        nn.Linear(200, 50), nn.BatchNorm1d(50), nn.ReLU(), nn.Linear(50, 20), nn.Linear(20, 2)
    )
    halfnet.convert_(model, 3, include=["0", "3"])
    report = {"seeds before": [model[0].seed, model[3].seed]}
    refused = ""
    try:  # another model in each process is noticed in both
        halfnet.sync_(nn.Sequential(*[halfnet.HalfLinear(4, 3, rank=1) for _ in range(rank + 1)]))
    except halfnet.HalfnetError as error:
        refused = str(error)
    report["refused"] = refused

    assert halfnet.sync_(model) is model
    ddp = DistributedDataParallel(model)
    sent = []

    def count(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        sent.append(bucket.buffer().nbytes)
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / 2)

    ddp.register_comm_hook(None, count)
    report["checksums"] = [model[0]._checksum, model[3]._checksum]
    report["buffers sent"] = sorted(
        name for name, b in model.named_buffers() if any(b is s for s in ddp.modules_buffers)
    )
    report["draws"] = model[0].eps.double().sum().item(), model[0].z.double().sum().item()
    kept = model[0].eps.clone()
    if rank == 1:
        model[0].eps.fill_(7.0)  # what rank 0 has would be back if it were sent
    with torch.no_grad():
        ddp(torch.randn(8, 200))
    report["still sevens"] = bool((model[0].eps == 7).all())
    model[0].eps.copy_(kept)

    optimizer = torch.optim.Adam(ddp.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        ddp(torch.randn(8, 200)).square().sum().backward()
        optimizer.step()
    report["gradient bytes"] = sum(sent) / 3
    report["learned bytes"] = sum(p.nbytes for p in model.parameters())
    report["dense bytes"] = sum(p.nbytes for p in halfnet.fold_(model).parameters())
    report["weights"] = [round(p.double().sum().item(), 9) for p in model.parameters()]
    with open(f"{folder}/{rank}.json", "w") as file:
        json.dump(report, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
