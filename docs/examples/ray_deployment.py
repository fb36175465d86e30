"""Two replicas of a model on a Ray cluster, each with csdfgen's engine: Ray shares out requests, the engine batches them.

pip install 'csdfgen[ray]'
python ray_deployment.py MODEL
"""

from __future__ import annotations

import sys

import numpy as np
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from csdfgen.reading.loader import load
from csdfgen.serving import Engine
from csdfgen.serving.kserve import encode_answer, parse_inference


@serve.deployment(num_replicas=2, max_ongoing_requests=256, ray_actor_options={"num_cpus": 1})
class Model:
    """A replica. Requests of KServe's protocol, version 2, are answered as `csdfgen serve` does."""

    def __init__(self, source: str, max_batch: int = 8) -> None:
        self.network = load(source)
        self.engine = Engine(self.network, max_batch=max_batch)

    async def __call__(self, request: Request) -> Response:
        """An inference over HTTP."""
        length = request.headers.get("inference-header-content-length")
        asked = parse_inference(await request.body(), length, self.network)
        answer = self.engine.submit(asked.inputs, deadline=asked.deadline, priority=asked.priority)
        parts, headers = encode_answer("model", asked, await answer)
        return Response(b"".join(parts), headers=headers)

    async def infer(self, images: np.ndarray) -> dict[str, np.ndarray]:
        """An inference from another program of the cluster: `handle.infer.remote(images)`."""
        return await self.engine.submit(images)


if __name__ == "__main__":
    serve.run(Model.bind(sys.argv[1]), route_prefix="/v2/models/model/infer", blocking=True)
