# Needs nothing but its bases and a package index, through a proxy with a private CA too: --secret id=ca,src=FILE gives
# pip the CA's bundle, and no layer keeps it.
# Both bases must have the same Python at the same path; name your own mirrors, or pin by digest, with --build-arg.
ARG BUILD_BASE=python:3.13-slim-bookworm
ARG RUNTIME_BASE=python:3.13-slim-bookworm

FROM ${BUILD_BASE} AS build
# Where packages come from is the environment's business: --build-arg PIP_INDEX_URL=... reaches pip as it is.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
RUN python -m venv /tools && python -m venv --without-pip /opt/grove-migrator
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN --mount=type=secret,id=ca,target=/run/secrets/ca.pem \
    if [ -s /run/secrets/ca.pem ]; then export PIP_CERT=/run/secrets/ca.pem; fi \
 && /tools/bin/pip install --require-hashes -r requirements/build.txt \
 && /tools/bin/pip --python /opt/grove-migrator/bin/python install --no-compile --require-hashes -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY migrator migrator
RUN /tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /tools/bin/pip --python /opt/grove-migrator/bin/python install --no-compile --no-deps /wheels/*.whl
# Of the client, its transport and its configuration are used. Its asynchronous twin with all that only this one needs,
# and the generated API and models, which are imported by name on demand, are nine tenths of all bytes.
RUN /tools/bin/pip --python /opt/grove-migrator/bin/python uninstall --yes \
      aiohappyeyeballs aiohttp aiohttp-retry aiosignal attrs frozenlist multidict propcache yarl \
 && cd /opt/grove-migrator/lib/python3.*/site-packages/kubernetes \
 && rm -r aio client/api \
 && find client/models -name '*.py' ! -name __init__.py -delete
# Bytecode is made here, because at run time the root file system is read-only; it is trusted without looking at the
# sources again, which nobody can change.
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/grove-migrator/lib \
 && /opt/grove-migrator/bin/grove-migrator --version

FROM ${RUNTIME_BASE}
ARG VERSION=1.0.0-rc2
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="grove-migrator" \
      org.opencontainers.image.description="One-shot migration of Grove's stored pod-template hashes, so that an operator upgrade recreates no pod." \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}"
COPY --from=build /opt/grove-migrator /opt/grove-migrator
ENV PATH=/opt/grove-migrator/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# Numeric, so that runAsNonRoot can be checked without a passwd file.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["grove-migrator"]
CMD ["--help"]
