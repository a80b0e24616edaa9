# Image of the program with Open MPI and a server of ssh, for mpi.yaml.
#
#   docker build -t parallax . && docker build -t parallax-mpi -f recipes/kubernetes/mpi.Dockerfile recipes/kubernetes
FROM parallax
RUN apt-get update && \
    apt-get install -y --no-install-recommends openmpi-bin openssh-client openssh-server && \
    rm -rf /var/lib/apt/lists/* && \
    mkdir -p /run/sshd && \
    # The operator makes keys for each job, and mounts them with its own permissions.
    printf 'StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n' > /etc/ssh/ssh_config.d/mpi.conf && \
    printf 'StrictModes no\n' > /etc/ssh/sshd_config.d/mpi.conf
ENTRYPOINT []
