package modelengine_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/modelengine"
)

// A key has its models and its requests a minute, and goes with its row; an engine behind answers the gateway alone.
func TestGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept []byte
		e, _ := modelengine.New(llamaCpp, []string{"--hf-repo", "a/b", "--alias", "mini"})
		e.Key = "engine"
		g := modelengine.Gateway{Master: "sk-master", Keys: &modelengine.GatewayKeys{Changed: func(data []byte) { kept = data }},
			Models: []modelengine.Upstream{{Name: "mini", Base: "http://mini", Key: "engine"}, {Name: "away", Base: "http://away"}},
			Engine: func(base string) (http.Handler, error) {
				if base == "http://away" {
					return nil, errors.New("no route")
				}
				return e.Handler(func() bool { return true }), nil
			}}
		h := g.Handler()
		ask := func(key, method, path, body string) (int, string) {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w.Code, w.Body.String()
		}
		const chat = "/v1/chat/completions"
		hello := func(model string) string {
			return `{"model":"` + model + `","messages":[{"role":"user","content":"x"}]}`
		}
		for _, x := range []struct {
			key, method, path, body string
			code                    int
			says                    string
		}{
			{"", "GET", "/health/liveliness", "", 200, "I'm alive!"},
			{"", "GET", "/health/readiness", "", 200, `"db":"connected"`},
			{"", "GET", "/v1/models", "", 401, "No api key passed in."},
			{"none", "GET", "/v1/models", "", 401, "Received=none****, expected to start with 'sk-'."},
			{"sk-alice", "GET", "/v1/models", "", 401, `"type":"token_not_found_in_db"`},
			{"sk-master", "POST", "/key/generate", `{"key":"sk-alice","key_alias":"alice","models":["mini"],"rpm_limit":2,"key_type":"llm_api"}`, 200, `"key_alias":"alice"`},
			{"sk-master", "POST", "/key/generate", `{"key":"alice","key_alias":"b"}`, 400, "must start with 'sk-'"},
			{"sk-master", "POST", "/key/generate", `nonsense`, 400, "invalid"},
			{"sk-alice", "GET", "/v1/models", "", 200, `{"data":[{"created":1677610602,"id":"mini","object":"model","owned_by":"openai"}],"object":"list"}`},
			{"sk-master", "GET", "/models", "", 200, `"id":"away"`},
			{"sk-alice", "POST", "/key/generate", `{}`, 403, "Virtual key is not allowed to call this route."},
			{"sk-alice", "POST", chat, hello("mini"), 200, "This is the lab"},
			{"sk-alice", "POST", chat, hello("away"), 403, `"type":"key_model_access_denied"`},
			{"sk-alice", "POST", chat, hello("none"), 400, "Invalid model name passed in model=none."},
			{"sk-alice", "POST", chat, hello("mini"), 200, "This is the lab"},
			{"sk-alice", "POST", chat, hello("mini"), 429, "Limit type: requests. Current limit: 2, Remaining: 0."},
			{"sk-master", "POST", chat, hello("away"), 500, "Connection error"},
			{"sk-master", "GET", "/key/list?size=101&page=1", "", 422, "page and size"},
			{"sk-master", "GET", "/nowhere", "", 404, "Not Found"},
		} {
			code, said := ask(x.key, x.method, x.path, x.body)
			require.Equal(t, x.code, code, "%s %s %s: %s", x.key, x.path, x.body, said)
			assert.Contains(t, said, x.says)
		}
		time.Sleep(time.Minute)
		code, _ := ask("sk-alice", "POST", chat, hello("mini"))
		assert.Equal(t, http.StatusOK, code)

		g.Keys = &modelengine.GatewayKeys{}
		require.NoError(t, g.Keys.Restore(kept))
		h = g.Handler()
		code, _ = ask("sk-alice", "GET", "/v1/models", "")
		assert.Equal(t, http.StatusOK, code, "another start, with the same database")
		code, _ = ask("sk-master", "POST", "/key/delete", `{"keys":["sk-alice"]}`)
		assert.Equal(t, http.StatusOK, code)
		code, _ = ask("sk-alice", "GET", "/v1/models", "")
		assert.Equal(t, http.StatusUnauthorized, code)
	})
}

// An engine that asks for a key refuses others, and says so as it does.
func TestEngineKey(t *testing.T) {
	for image, want := range map[string]string{vllm: `{"error":"Unauthorized"}`, llamaCpp: `{"error":{"code":401,"message":"Invalid API Key","type":"authentication_error"}}`} {
		e, _ := modelengine.New(image, []string{"--model", "a/b"})
		e.Key = "right"
		code, said := call(t, e, true, "POST", "/v1/chat/completions", `{}`)
		assert.Equal(t, http.StatusUnauthorized, code)
		assert.JSONEq(t, want, said)
		code, _ = call(t, e, true, "GET", "/health", "")
		assert.Equal(t, http.StatusOK, code)
	}
}
