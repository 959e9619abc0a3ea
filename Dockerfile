# Two images: `operator` (the controller) and `trainer` (what runs in the pods).
#
#   docker build --target operator -t dtj-operator .
#   docker build --target trainer  -t dtj-trainer  .     # --build-arg TORCH_INDEX=… for a CPU-only torch
#
# Layers go from what changes least to what changes most: Debian, torch, third-party packages, our code.
# A CA bundle for the package index can be passed as a build secret: --secret id=ca,src=/path/to/bundle.crt
# No `syntax` line: it would need a registry. What is used here is in every BuildKit since Docker 20.10.

ARG BASE_IMAGE=python:3.13-slim

# ---------------------------------------------------------------- what both images stand on
FROM ${BASE_IMAGE} AS base
ENV PATH=/opt/venv/bin:$PATH \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# A named user: torch asks for the user's name when it makes its caches.
RUN python3 -m venv --without-pip /opt/venv \
 && echo 'dtj:x:1000:1000::/tmp:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'dtj:x:1000:' >> /etc/group

# ---------------------------------------------------------------- tools that only build: mounted, never shipped
FROM base AS tools
RUN --mount=type=secret,id=ca \
    --mount=type=cache,target=/var/cache/pip \
    python3 -m venv /opt/tools \
 && if [ -f /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && /opt/tools/bin/pip install --quiet --disable-pip-version-check --cache-dir /var/cache/pip uv hatchling \
 && printf '%s\n' '#!/bin/sh' \
      'if [ -f /run/secrets/ca ]; then export SSL_CERT_FILE=/run/secrets/ca; fi' \
      'export UV_CACHE_DIR=/var/cache/uv UV_HTTP_TIMEOUT=180' \
      'exec /opt/tools/bin/uv pip install --quiet --python /opt/venv/bin/python "$@"' \
      > /opt/tools/bin/add \
 && chmod +x /opt/tools/bin/add

# ---------------------------------------------------------------- which versions: a layer below is rebuilt only if its file differs
FROM base AS versions
COPY constraints.tx[t] operator/pyproject.toml /in/
RUN touch /in/constraints.txt && mkdir /out \
 && grep -iE '^(torch|nvidia|triton|cuda)' /in/constraints.txt > /out/torch.txt || true
# dtj-api comes from this repository, not from an index: a marker that never holds drops the requirement.
RUN cp /in/constraints.txt /out/all.txt && echo "dtj-api ; python_version < '0'" > /out/ours.txt

# ---------------------------------------------------------------- operator
FROM base AS operator-dependencies
COPY --from=versions /out/all.txt /out/ours.txt /versions/
COPY operator/pyproject.toml /versions/operator/
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca \
    /opt/tools/bin/add --compile-bytecode -r /versions/operator/pyproject.toml \
      -c /versions/all.txt --override /versions/ours.txt

FROM tools AS operator-code
COPY api /src/api
COPY operator /src/operator
RUN for part in api operator; do (cd /src/$part && /opt/tools/bin/hatchling build -t wheel -d /wheels) || exit 1; done

FROM operator-dependencies AS operator
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    --mount=type=bind,from=operator-code,source=/wheels,target=/wheels \
    /opt/tools/bin/add --offline --no-cache --no-deps /wheels/*.whl \
 && python -m compileall -q /opt/venv/lib/python3*/site-packages/dtj_*
USER 1000:1000
ENTRYPOINT ["python", "-m", "dtj_operator"]

# ---------------------------------------------------------------- trainer
# Without uv's cache: it would keep all of torch's gigabytes a second time.
FROM base AS torch
ARG TORCH_INDEX=
COPY --from=versions /out/torch.txt /versions/
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    --mount=type=secret,id=ca \
    /opt/tools/bin/add --no-cache --compile-bytecode ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
      -c /versions/torch.txt 'torch>=2.10' numpy

FROM torch AS trainer-dependencies
COPY --from=versions /out/all.txt /out/ours.txt /versions/
COPY trainer_image/pyproject.toml /versions/trainer/
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    --mount=type=cache,target=/var/cache/uv \
    --mount=type=secret,id=ca \
    /opt/tools/bin/add --compile-bytecode -r /versions/trainer/pyproject.toml \
      -c /versions/all.txt --override /versions/ours.txt

FROM tools AS trainer-code
COPY api /src/api
COPY trainer_image /src/trainer_image
RUN for part in api trainer_image; do (cd /src/$part && /opt/tools/bin/hatchling build -t wheel -d /wheels) || exit 1; done

FROM trainer-dependencies AS trainer
RUN --mount=type=bind,from=tools,source=/opt/tools,target=/opt/tools \
    --mount=type=bind,from=trainer-code,source=/wheels,target=/wheels \
    /opt/tools/bin/add --offline --no-cache --no-deps /wheels/*.whl \
 && python -m compileall -q /opt/venv/lib/python3*/site-packages/dtj_*
USER 1000:1000
ENTRYPOINT ["python", "-m", "dtj_trainer.launch"]
