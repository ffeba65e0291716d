package api

import (
	"net/http"
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
