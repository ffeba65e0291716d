package modelserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/internal/modelserver"
	"github.com/cps-gpu/homelab/secret"
)

// chat asks the gateway one question, with options of the request.
func (w *world) chat(t *testing.T, key, options string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(`{"model":"qwen","messages":[{"role":"user","content":"x"}]`+options+`}`))
	r.Header.Set("Authorization", "Bearer "+key)
	answer := httptest.NewRecorder()
	w.engine.ServeHTTP(answer, r)
	require.Equal(t, http.StatusOK, answer.Code)
	require.Contains(t, answer.Body.String(), "lab")
	return answer.Body.String()
}

// Use is summed up by key and model over days and pages; the administrator's questions have a row, too.
func TestUse(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		time.Sleep(24*time.Hour - time.Minute) // a little before midnight, in UTC
		g := w.gateway(t)
		none, err := g.Use(t.Context(), time.Now(), time.Now())
		require.NoError(t, err)
		assert.Empty(t, none)
		require.NoError(t, g.Add(t.Context(), "alice", secret.New("sk-alice"), modelserver.Limits{}))
		_, err = modelserver.Server{Name: "qwen", State: modelserver.Ready}.Verify(t.Context(), w.Client, g)
		require.NoError(t, err)
		first := time.Now()
		for _, options := range []string{``, `,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`} {
			said := w.chat(t, "sk-alice", options)
			assert.Equal(t, options != `,"stream":true`, strings.Contains(said, `"usage"`), "it is told who asks for it: %s", options)
		}
		w.settle(t, modelserver.GatewayService, up()) // the next day begins meanwhile
		w.chat(t, "sk-alice", "")
		all, err := g.Use(t.Context(), first, time.Now())
		require.NoError(t, err)
		require.Len(t, all, 2)
		admin, alice := all[0], all[1]
		assert.Equal(t, "(administrator)", admin.Key)
		assert.Equal(t, 1, admin.Requests)
		assert.Positive(t, admin.Output)
		assert.Equal(t, modelserver.Use{Key: "alice", Model: "qwen", Requests: 4, Input: 4 * 5, Output: 4 * alice.Output / 4}, alice)
		assert.Positive(t, alice.Output)
		today, err := g.Use(t.Context(), time.Now(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, []modelserver.Use{{Key: "alice", Model: "qwen", Requests: 1, Input: 5, Output: alice.Output / 4}}, today)

		list, err := g.Keys(t.Context())
		require.NoError(t, err)
		require.NoError(t, g.Revoke(t.Context(), list[0].Hash))
		again, err := g.Use(t.Context(), first, time.Now())
		require.NoError(t, err)
		assert.Equal(t, all, again, "of a key that is gone, too")
	})
}

// More rows than a page has.
func TestUseOfManyKeys(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		g := w.gateway(t)
		const many = 1100
		for i := range many {
			key := fmt.Sprintf("sk-%d", i)
			require.NoError(t, g.Add(t.Context(), fmt.Sprintf("k%04d", i), secret.New(key), modelserver.Limits{}))
			w.chat(t, key, "")
		}
		all, err := g.Use(t.Context(), time.Now(), time.Now())
		require.NoError(t, err)
		require.Len(t, all, many)
		assert.Equal(t, "k0000", all[0].Key)
		assert.Equal(t, "k1099", all[many-1].Key)

		row := `{"results":[{"breakdown":{"model_groups":{"qwen":{"api_key_breakdown":{"0123456789abcdef":{"metrics":{"successful_requests":2},"metadata":{"key_alias":null}}}}}}}],"metadata":{"has_more":false}}`
		w.engine = said(http.StatusOK, row)
		all, err = g.Use(t.Context(), time.Now(), time.Now())
		require.NoError(t, err)
		assert.Equal(t, []modelserver.Use{{Key: "01234567…", Model: "qwen", Requests: 2}}, all)

		w.engine = said(http.StatusOK, strings.Replace(row, "false", "true", 1))
		_, err = g.Use(t.Context(), time.Now(), time.Now())
		assert.EqualError(t, err, "the models' gateway has more than 100 pages of use; ask for fewer days")
	})
}
