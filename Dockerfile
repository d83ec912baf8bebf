# docker build --tag kafkalog . && docker run --rm --volume /var/lib/kafka/data:/logs:ro kafkalog verify /logs
FROM python:3.13-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY . /source
RUN python -m venv /opt/kafkalog && /opt/kafkalog/bin/pip install --no-cache-dir /source 'typer<0.29'

FROM python:3.13-slim
COPY --from=build /opt/kafkalog /opt/kafkalog
# The user of the official images of Kafka, so that their log directories can be read. To write, run as their owner: --user.
RUN groupadd --gid 1000 kafkalog && useradd --uid 1000 --gid 1000 --create-home kafkalog && install -d -o 1000 -g 1000 /logs
ENV PATH=/opt/kafkalog/bin:$PATH
USER 1000:1000
VOLUME /logs
WORKDIR /logs
ENTRYPOINT ["kafkalog"]
CMD ["--help"]
