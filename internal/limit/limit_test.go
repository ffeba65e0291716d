package limit_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/limit"
)

// What fits comes whole, and of what does not as much as fits, however it is read.
func TestReader(t *testing.T) {
	for _, slow := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
		for _, n := range []int{0, 1, 9, 10} {
			got, err := io.ReadAll(limit.Reader(slow(strings.NewReader(strings.Repeat("x", n))), 10))
			require.NoError(t, err)
			assert.Len(t, got, n)
		}
		for _, n := range []int{11, 12, 5000} {
			got, err := io.ReadAll(limit.Reader(slow(strings.NewReader(strings.Repeat("x", n))), 10))
			var e *limit.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, limit.Error{Most: 10}, *e)
			assert.Len(t, got, 10)
		}
	}
	from := strings.NewReader(strings.Repeat("x", 5000))
	_, err := io.ReadAll(limit.Reader(from, 10))
	require.Error(t, err)
	assert.Equal(t, 4989, from.Len(), "it does not read ahead")
	_, err = io.ReadAll(limit.Reader(iotest.ErrReader(io.ErrUnexpectedEOF), 10))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, iotest.TestReader(limit.Reader(strings.NewReader("all of it"), 9), []byte("all of it")))
}

// Sizes are never rounded down.
func TestSizes(t *testing.T) {
	for n, want := range map[int64]string{1023: "1023 bytes", 1024: "1 KiB", 1025: "2 KiB", 1<<20 - 1: "1024 KiB", 1 << 20: "1 MiB", 1<<20 + 1: "2 MiB"} {
		assert.Equal(t, "it has more than "+want+", and no more are read", (&limit.Error{Most: n}).Error())
	}
}

// A size that is known is told, however small; 0 is one that is not.
func TestTheSizeIsTold(t *testing.T) {
	for size := range int64(5) {
		text := (&limit.Error{Most: 7, Size: size}).Error()
		assert.Equal(t, size > 0, strings.HasPrefix(text, fmt.Sprintf("it has %d bytes, and at most 7 bytes", size)), text)
	}
}

// An answer that says how large it is is not read at all, and closed all the same.
func TestBody(t *testing.T) {
	for size, want := range map[int64]string{
		-1:        "it has more than 2 KiB, and no more are read",
		2049:      "it has 3 KiB, and at most 2 KiB are read",
		3<<20 + 1: "it has 4 MiB, and at most 2 KiB are read",
	} {
		from := &source{Reader: strings.NewReader(strings.Repeat("x", 4000))}
		res := &http.Response{ContentLength: size, Body: from}
		res.Body = limit.Body(res.Body, res.ContentLength, 2048)
		got, err := io.ReadAll(res.Body)
		require.EqualError(t, err, want)
		assert.Equal(t, size > 0, len(got) == 0)
		require.NoError(t, res.Body.Close())
		assert.True(t, from.closed)
	}
	res := &http.Response{ContentLength: 4, Body: io.NopCloser(strings.NewReader("four"))}
	res.Body = limit.Body(res.Body, res.ContentLength, 4)
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	assert.Equal(t, "four", string(got))
}

type source struct {
	io.Reader
	closed bool
}

func (s *source) Close() error { s.closed = true; return nil }

func TestBuffer(t *testing.T) {
	b := &limit.Buffer{Most: 5}
	_, err := io.Copy(b, bytes.NewReader([]byte("12345")))
	require.NoError(t, err)
	n, err := b.Write([]byte("6"))
	require.EqualError(t, err, "it has more than 5 bytes, and no more are read")
	assert.Zero(t, n)
	assert.Equal(t, "12345", string(b.Bytes()))
	b = &limit.Buffer{Most: 5}
	n, err = b.Write([]byte("1234567"))
	require.Error(t, err)
	assert.Equal(t, 5, n)
	assert.Equal(t, "12345", string(b.Bytes()))
	assert.True(t, (&limit.Error{}).Permanent())
}
