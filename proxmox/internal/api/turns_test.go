package api

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Only what asks a guest or changes something on a host takes that host's turn.
func TestWhatMayBlock(t *testing.T) {
	for call, want := range map[string]string{
		"GET /nodes/pve1/qemu/100/agent/info": "pve1", "GET /nodes/pve1/qemu/100/config": "", "PUT /nodes/pve1/qemu/100/config": "pve1", "POST /nodes/pve2/qemu": "pve2",
		"POST /nodes/pve1/storage/local/upload": "", "POST /access/ticket": "", "DELETE /cluster/mapping/pci/x": "",
	} {
		method, path, _ := strings.Cut(call, " ")
		host, blocks := mayBlock(method, path)
		if !blocks {
			host = ""
		}
		assert.Equal(t, want, host, call)
		assert.Equal(t, want != "", blocks, call)
	}
}

// Whether a failed look is worth another.
func TestWorthAnotherGet(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{errors.New("x"), false}, {&Error{Status: 500, Message: "x"}, false}, {&Error{Status: 500, Message: "can't lock file 'x' - got timeout"}, false},
		{&Error{Status: 595, Message: "refused"}, true}, {&Error{Status: 596}, true}, {&Error{Status: 503}, true}, {&Error{Cause: io.EOF}, true},
		{&Error{Cause: &net.DNSError{}}, false}, {&Error{Cause: &TLSError{}}, false}, {&Error{Cause: context.DeadlineExceeded}, false},
	} {
		assert.Equal(t, tt.want, isTemporary(tt.err), "%#v", tt.err)
	}
	assert.Equal(t, "read: broken", networkText(&net.OpError{Op: "read", Err: errors.New("broken")}))
	assert.Equal(t, "the connection was closed before an answer arrived", networkText(io.ErrUnexpectedEOF))
	assert.Equal(t, "x", networkText(errors.New("x")))
}
