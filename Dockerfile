# One image for all of Tandem's parts: broker, speed layer, batch runs, page, Airflow, Spark's master and workers.
# docs/container.md has the commands. Pin the base by digest: --build-arg BASE=docker.io/library/debian@sha256:...
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS prometheus
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends prometheus \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log /var/lib/prometheus \
    && install -d -o 10001 -g 10001 -m 0700 /var/lib/prometheus
USER 10001:10001
VOLUME /var/lib/prometheus
ENTRYPOINT ["/usr/bin/prometheus", "--config.file=/etc/tandem/prometheus.yml", "--storage.tsdb.path=/var/lib/prometheus", \
    "--storage.tsdb.retention.time=30d", "--web.listen-address=127.0.0.1:9090", "--web.external-url=https://127.0.0.1:8445/"]

FROM ${BASE} AS tandem

RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends bash ca-certificates haproxy openssl procps python3 python3-venv tini \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log

COPY . /opt/tandem
WORKDIR /opt/tandem

# The same set-up as of a checkout: hashed locks, verified jars. Where packages come from is the builder's business: a
# pip.conf and certificates come as secrets, which no layer keeps. The set-up's packaged Java needs no Java of Debian's.
RUN --mount=type=secret,id=pip,target=/run/secrets/pip.conf \
    --mount=type=secret,id=certificates,target=/run/secrets/certificates.pem \
    sh container/install packages

# Airflow's packages are a layer of their own; --build-arg AIRFLOW=no leaves them out.
ARG AIRFLOW=yes
RUN --mount=type=secret,id=pip,target=/run/secrets/pip.conf \
    --mount=type=secret,id=certificates,target=/run/secrets/certificates.pem \
    if [ "$AIRFLOW" = yes ]; then sh container/install airflow; fi

RUN useradd --uid 10001 --home-dir /var/lib/tandem --shell /usr/sbin/nologin tandem \
    && install -d -o tandem -g tandem -m 0700 /var/lib/tandem \
    && install -d -o tandem -g tandem -m 0700 /var/lib/tandem-tables \
    && install -d -m 0755 /project \
    && ln -s /opt/tandem/tandem /usr/local/bin/tandem

ENV HOME=/var/lib/tandem \
    PYTHONDONTWRITEBYTECODE=1 \
    TANDEM_PROJECT=/project \
    TANDEM_STATE=/var/lib/tandem/state
USER 10001:10001
WORKDIR /project
VOLUME /var/lib/tandem
EXPOSE 8443 8444 8445 8446
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=10s --start-period=5m --retries=3 CMD ["/opt/tandem/container/healthy"]
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["/opt/tandem/container/run"]
