package lan

import (
	"encoding/binary"
	"fmt"
	"io"
)

const (
	// headerSize is an Ethernet frame without contents.
	headerSize = 14
	// maxFrame is the longest that IPv4 can fill, with a VLAN's tag.
	maxFrame = headerSize + 4 + 1<<16
)

// readFrame reads a frame in the format of QEMU's netdevs socket and stream: its length in
// four bytes, big-endian, and the frame (net/socket.c). A frame that is too short to be one is
// empty.
func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, and none has more than %d", n, maxFrame)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	if n < headerSize {
		return nil, nil
	}
	return frame, nil
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(frame)), uint32(len(frame))), frame...))
	return err
}
