"""Lightning with its default callbacks: a checkpoint at the end of each epoch of 100 steps. Usage: … DIR STEP."""

import os
import sys
import time
from pathlib import Path

import lightning.pytorch as pl
import torch

DIRECTORY, STEP = Path(sys.argv[1]), float(sys.argv[2])


class Module(pl.LightningModule):
    """Two parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.progress = os.open(DIRECTORY / "steps", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def training_step(self, batch, _index):
        """Take the set time."""
        time.sleep(STEP)
        return self.layer(batch[0]).square().mean()

    def on_train_batch_end(self, *_arguments) -> None:
        """Tell the step."""
        os.write(self.progress, b"%d\n" % self.trainer.global_step)

    def configure_optimizers(self):
        """Return the usual one."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(100, 1)), batch_size=1)
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
pl.Trainer(max_epochs=-1, default_root_dir=DIRECTORY, accelerator="cpu", **quiet).fit(Module(), data)
