package main

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
)

// serveSOCKS is a SOCKS5 proxy (RFC 1928) to the network of the guests: CONNECT to addresses,
// without a login, as ssh and curl need. It returns when ctx has ended and all connections
// with it.
func serveSOCKS(ctx context.Context, l net.Listener, dial func(ctx context.Context, network, address string) (net.Conn, error)) {
	accept(ctx, l, func(conn net.Conn) {
		address, err := socksRequest(conn)
		if err != nil {
			return // the client has been told
		}
		guest, err := dial(ctx, "tcp", address)
		if err != nil {
			_ = socksReply(conn, socksRefused)
			return
		}
		defer func() { _ = guest.Close() }()
		if socksReply(conn, socksDone) == nil {
			pipe(conn, guest)
		}
	})
}

// accept serves every connection until ctx ends, and returns when all have ended.
func accept(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	var open sync.WaitGroup
	defer open.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		open.Go(func() {
			defer func() { _ = conn.Close() }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			serve(conn)
		})
	}
}

// Replies and address types of RFC 1928.
const (
	socksVersion   = 5
	socksConnect   = 1
	socksIPv4      = 1
	socksIPv6      = 4
	socksDone      = 0
	socksRefused   = 5
	socksNoCommand = 7
	socksNoAddress = 8
)

var errSOCKS = errors.New("not a SOCKS5 request that is served here")

// socksRequest reads the handshake: the address that the client wants.
func socksRequest(conn net.Conn) (address string, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil || head[0] != socksVersion {
		return "", errSOCKS
	}
	if _, err := io.CopyN(io.Discard, conn, int64(head[1])); err != nil {
		return "", err
	}
	if _, err := conn.Write([]byte{socksVersion, 0}); err != nil {
		return "", err
	}
	request := make([]byte, 4)
	if _, err := io.ReadFull(conn, request); err != nil {
		return "", err
	}
	if request[1] != socksConnect {
		return "", errors.Join(errSOCKS, socksReply(conn, socksNoCommand))
	}
	size, known := map[byte]int{socksIPv4: net.IPv4len, socksIPv6: net.IPv6len}[request[3]]
	if !known { // names are not supported
		return "", errors.Join(errSOCKS, socksReply(conn, socksNoAddress))
	}
	to := make([]byte, size+2)
	if _, err := io.ReadFull(conn, to); err != nil {
		return "", err
	}
	ip, _ := netip.AddrFromSlice(to[:size])
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(to[size:])).String(), nil
}

func socksReply(conn net.Conn, code byte) error {
	_, err := conn.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}

// pipe copies both ways until one side ends.
func pipe(a, b net.Conn) {
	done := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			done <- struct{}{}
		}()
	}
	<-done
	_, _ = a.Close(), b.Close()
	<-done
}
