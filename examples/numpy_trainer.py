"""Trains a small network with numpy and survives any stop. Usage: numpy_trainer.py DIR [STEPS] [SECONDS PER STEP]."""

import hashlib
import sys
import time

import numpy as np

from forewarn.inpod import CheckpointStore, InterruptionLog, Loop, SaveSchedule

BATCH, RATE, MOMENTUM = 16, 0.05, 0.9


def gradient(weights, x, y):
    """Return the loss of a batch and its gradient."""
    hidden = np.tanh(x @ weights["a"])
    error = hidden @ weights["b"] - y
    back = (error @ weights["b"].T) * (1 - hidden**2)
    return float((error**2).mean()), {"a": x.T @ back / len(x), "b": hidden.T @ error / len(x)}


def main(directory, steps=500, pause=0.0):
    """Train, or go on training; return the exit code."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(256, 8))
    targets = np.sin(inputs.sum(axis=1, keepdims=True))
    # Everything that the next step depends on: weights, optimizer, data position; the random state joins at a save.
    run = {"weights": {"a": rng.normal(size=(8, 32)) / 3, "b": rng.normal(size=(32, 1)) / 6}}
    run |= {"velocity": {"a": 0.0, "b": 0.0}, "order": rng.permutation(256), "position": 0, "step": 0}
    loop = Loop(
        CheckpointStore(directory, config={"batch": BATCH, "rate": RATE, "steps": steps}),
        schedule=SaveSchedule(0.002, shortest=0.0),  # a save of this little costs 2 ms
        stop_on_warning=False,  # save on a warning, use the notice to its end, stop when SIGTERM comes
        interruptions=InterruptionLog("interruptions.log"),
    )
    with loop:
        if restored := loop.resume():
            rng.bit_generator.state = restored.state.pop("rng")
            run = restored.state
        while run["step"] < steps:
            if run["position"] == 256:
                run |= {"order": rng.permutation(256), "position": 0}
            chosen = run["order"][run["position"] : run["position"] + BATCH]
            noise = rng.normal(size=(BATCH, 8)) * 0.01
            loss, slopes = gradient(run["weights"], inputs[chosen] + noise, targets[chosen])
            for name, slope in slopes.items():
                run["velocity"][name] = MOMENTUM * run["velocity"][name] - RATE * 0.999 ** run["step"] * slope
                run["weights"][name] = run["weights"][name] + run["velocity"][name]
            run |= {"position": run["position"] + BATCH, "step": run["step"] + 1}
            time.sleep(pause)
            print(f"step {run['step']} loss {loss:.6f}", flush=True)
            if loop.step(run["step"], lambda: {**run, "rng": rng.bit_generator.state}):
                return loop.exit_code
        loop.finish(steps, lambda: {**run, "rng": rng.bit_generator.state})
    print("done", hashlib.sha256(b"".join(run["weights"][name].tobytes() for name in "ab")).hexdigest())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *map(int, sys.argv[2:3]), *map(float, sys.argv[3:4])))
