//go:build !unix

package qemu

import (
	"errors"
	"net"
	"os"
)

func pair() (net.Conn, *os.File, error) {
	return nil, nil, errors.New("QEMU is started on Linux and macOS only: this system has no pairs of sockets")
}
