"""A training step recorded once per shape of batch as a CUDA graph, and replayed: these networks are so small that
launching their kernels one by one takes longer than running them."""

import dataclasses

import torch


class RecordedSteps:
    """Calls `step(window)`; from the third window of a context length on, as a graph where `recording` is on."""

    def __init__(self, step, recording):
        self.step, self.recording = step, recording
        self.seen, self.graphs, self.pool = {}, {}, None
        self.stream = torch.cuda.Stream() if recording else None

    def __call__(self, window):
        if not self.recording:
            return self.step(window)
        length = window.context
        if length not in self.graphs:
            self.seen[length] = self.seen.get(length, 0) + 1
            if self.seen[length] < 3:
                self.stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(self.stream):
                    numbers = self.step(window)
                torch.cuda.current_stream().wait_stream(self.stream)
                return numbers
            self.record(window)
        graph, fixed, numbers = self.graphs[length]
        for field in ("values", "stamps", "mean", "deviation"):
            getattr(fixed, field).copy_(getattr(window, field))
        graph.replay()
        return numbers

    def record(self, window):
        fixed = dataclasses.replace(window, values=window.values.clone(), stamps=window.stamps.clone(),
                                    mean=window.mean.clone(), deviation=window.deviation.clone())
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            numbers = self.step(fixed)
        self.pool = self.pool or graph.pool()
        self.graphs[window.context] = graph, fixed, numbers
