package request

import (
	"bytes"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Clients wait five seconds for the answer once all is sent (proxmoxer), so 300 MiB are not
// to be copied over and over while they come.
func TestALargeUploadIsReadOnce(t *testing.T) {
	const size = 48 << 20
	head := "--x\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n--x\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"big.iso\"\r\n\r\n"
	body := io.MultiReader(strings.NewReader(head), io.LimitReader(zeros{}, size), strings.NewReader("\r\n--x--\r\n"))
	r := httptest.NewRequest("POST", "/api2/json/nodes/pve1/storage/local/upload", body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
	r.ContentLength = int64(len(head) + size + len("\r\n--x--\r\n"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := Params{}
	up, err := ReadUpload(r, p)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	assert.Equal(t, "iso", p["content"][0])
	assert.Equal(t, size, len(up.Data))
	assert.True(t, bytes.Equal(up.Data[:1024], make([]byte, 1024)))
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size+size/4), "bytes that were allocated")
}
