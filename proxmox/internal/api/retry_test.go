package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A GET is sent four times, each wait twice the one before; anything else is sent once.
func TestGetsAreSentAgain(t *testing.T) {
	for method, want := range map[string][]time.Duration{
		http.MethodGet:    {0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond},
		http.MethodPost:   {0},
		http.MethodPut:    {0},
		http.MethodDelete: {0},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			var at []time.Duration
			client := &http.Client{Transport: retryGets{tripper(func(*http.Request) (*http.Response, error) {
				at = append(at, time.Since(begun))
				return nil, &Error{Status: 595, Message: "no route to host"}
			})}}
			r, err := http.NewRequestWithContext(t.Context(), method, "https://pve1:8006/", http.NoBody)
			require.NoError(t, err)
			res, err := client.Do(r)
			if err == nil {
				res.Body.Close()
			}
			require.ErrorContains(t, err, "no route to host")
			assert.Equal(t, want, at, method)
		})
	}
}

// cut is an answer whose connection is lost in the middle.
type cut struct{ left string }

func (c *cut) Read(b []byte) (int, error) {
	n := copy(b, c.left)
	if c.left = c.left[n:]; n == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, nil
}

// A GET whose answer breaks off is sent again, and nothing else is: a POST may have done its work.
func TestAnswersThatBreakOff(t *testing.T) {
	for method, want := range map[string]int{http.MethodGet: 3, http.MethodPost: 1, http.MethodPut: 1, http.MethodDelete: 1} {
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			client := &http.Client{Transport: retryGets{tripper(func(r *http.Request) (*http.Response, error) {
				body := io.Reader(&cut{`{"data":`})
				if sent++; sent == 3 {
					body = strings.NewReader(`{"data":1}`)
				}
				return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(body)}, nil
			})}}
			r, err := http.NewRequestWithContext(t.Context(), method, "https://pve1:8006/", http.NoBody)
			require.NoError(t, err)
			res, err := client.Do(r)
			require.NoError(t, err)
			defer res.Body.Close()
			text, err := io.ReadAll(res.Body)
			assert.Equal(t, method == http.MethodGet, err == nil, "%s: %v", method, err)
			assert.Equal(t, want, sent, method)
			if err == nil {
				assert.Equal(t, `{"data":1}`, string(text))
			}
		})
	}
}
