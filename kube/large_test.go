package kube_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/kube"
)

// An answer without an end is not read into memory, and not waited for: the next is as large.
func TestAnswersHaveABound(t *testing.T) {
	for want, announced := range map[string]int64{"it has more than 64 MiB": -1, "it has 300 MiB, and at most 64 MiB are read": 300 << 20} {
		sent := &countingReader{from: io.LimitReader(repeated("a"), 300<<20)}
		c, err := kube.New(kube.Config{Kubeconfig: []byte(somewhere), Wrap: func(http.RoundTripper) http.RoundTripper {
			return answering(func(r *http.Request) *http.Response {
				body := io.MultiReader(strings.NewReader(`{"gitVersion": "`), sent)
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body), ContentLength: announced, Request: r}
			})
		}})
		require.NoError(t, err)
		_, err = c.Version(t.Context())
		require.ErrorContains(t, err, "ask the API server's version: the API server's answer: "+want)
		assert.NotErrorIs(t, err, kube.ErrUnreachable)
		assert.True(t, converge.IsPermanent(err))
		assert.Less(t, sent.n, 70<<20)
	}
}

type answering func(*http.Request) *http.Response

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

type repeated string

func (r repeated) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte(r), len(b))), nil }

type countingReader struct {
	from io.Reader
	n    int
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += n
	return n, err
}
