# The images a kubeadm control plane pulls, made from static binaries; one stage a shape, PROGRAM names the binary.
ARG DEBIAN
FROM ${DEBIAN} AS collector
# Copies programs with the libraries they load, and nothing else of Debian, to /out.
RUN printf '%s\n' '#!/bin/sh -e' 'mkdir -p /out' \
      'cp --archive --parents "$@" /out/' \
      'ldd "$@" | grep -oE "/[^ ]+\.so[^ :]*" | sort -u | xargs -I{} cp --dereference --parents {} /out/' \
      > /collect && chmod +x /collect

FROM collector AS iptables
# kube-proxy calls iptables: its nftables flavour.
RUN /collect /usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/lib/*-linux-gnu/xtables/*.so \
 && for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do \
      ln -s xtables-nft-multi /out/usr/sbin/$name; done

FROM collector AS applets
# Not the static flavour: it crashes when it looks a name up.
RUN /collect /bin/busybox \
 && for name in $(busybox --list); do [ -e "/out/bin/$name" ] || ln -s busybox "/out/bin/$name"; done

FROM scratch AS program
ARG PROGRAM
ENV PATH=/usr/local/bin
WORKDIR /tmp
COPY bin/${PROGRAM} /usr/local/bin/

FROM program AS coredns
ENTRYPOINT ["coredns"]

FROM program AS pause
USER 65535:65535
ENTRYPOINT ["pause"]

FROM scratch AS kube-proxy
ENV PATH=/usr/local/bin:/usr/sbin
WORKDIR /run
WORKDIR /tmp
COPY --from=iptables /out/ /
COPY bin/kube-proxy /usr/local/bin/

FROM scratch AS busybox
ENV PATH=/bin
WORKDIR /tmp
COPY --from=applets /out/ /
CMD ["sh"]

FROM program AS registry
ENTRYPOINT ["registry"]
