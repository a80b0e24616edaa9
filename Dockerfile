# Image of the program with the measuring page, CUDA's compiler and libraries, Vulkan, Chromium and Firefox.
#
#   docker build -t parallax .
#   docker run --rm --gpus all -v "$PWD/results:/parallax/results" parallax run --target all
FROM rust:1-bookworm AS build
WORKDIR /parallax
COPY . .
RUN ./x page && cargo build --locked --profile dist --features page -p parallax-gpu

FROM debian:bookworm-slim
RUN apt-get update && \
    apt-get install -y --no-install-recommends \
      ca-certificates chromium firefox-esr libegl1 libvulkan1 mesa-vulkan-drivers python3-pip && \
    rm -rf /var/lib/apt/lists/*
# NVRTC, cuBLASLt, cuDNN and NCCL. The driver's libraries come with the container toolkit.
RUN pip install --no-cache-dir --no-deps --target /opt/cuda \
      nvidia-cuda-nvrtc==13.0.88 nvidia-cublas==13.1.0.3 nvidia-cudnn-cu13==9.19.0.56 \
      nvidia-nccl-cu13==2.28.3
COPY --from=build /parallax/target/dist/parallax /usr/local/bin/parallax
ENV LD_LIBRARY_PATH=/opt/cuda/nvidia/cu13/lib:/opt/cuda/nvidia/cudnn/lib:/opt/cuda/nvidia/nccl/lib \
    NVIDIA_DRIVER_CAPABILITIES=compute,graphics,utility
WORKDIR /parallax
ENTRYPOINT ["parallax"]
CMD ["run"]
