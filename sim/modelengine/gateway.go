package modelengine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GatewayImage is the end of LiteLLM's image's name.
const GatewayImage = "litellm/litellm-non_root"

// Gateway plays LiteLLM in front of engines: keys with limits, as far as they are made by its API. Paths, shapes
// and words are those of BerriAI/litellm (litellm/proxy/auth, litellm/proxy/management_endpoints), read on
// 2026-11-29; it has no page, teams, budgets or logs.
type Gateway struct {
	Master string     // the administrator's key
	Models []Upstream // model_list
	// Engine finds what listens at an address of Models.
	Engine func(base string) (http.Handler, error)
	Keys   *GatewayKeys
}

// Upstream is a model of a gateway.
type Upstream struct {
	Name string // for clients
	Base string // api_base
	Key  string // api_key
}

// GatewayKeys are the keys of a gateway, which its database would have.
type GatewayKeys struct {
	Changed func([]byte) // gets all keys and their use as JSON after every change; may be nil

	mu   sync.Mutex
	keys map[string]*gatewayKey // by their SHA-256
	use  []useRow
	used map[string][]time.Time // requests of the last minute
}

// gatewayRows are what is kept of keys.
type gatewayRows struct {
	Keys map[string]*gatewayKey `json:"keys"`
	Use  []useRow               `json:"use"`
}

// gatewayKey is a row of LiteLLM_VerificationToken.
type gatewayKey struct {
	Token    string         `json:"token"`
	Alias    string         `json:"key_alias"`
	Models   []string       `json:"models"`
	RPM      *int           `json:"rpm_limit"`
	TPM      *int           `json:"tpm_limit"`
	Routes   []string       `json:"allowed_routes"`
	Metadata map[string]any `json:"metadata"`
	Spend    float64        `json:"spend"`
}

// Restore reads what Changed got.
func (k *GatewayKeys) Restore(data []byte) error {
	var rows gatewayRows
	if err := json.Unmarshal(data, &rows); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keys, k.use = rows.Keys, rows.Use
	return nil
}

// tellChange reports what is to be kept; the caller has the lock.
func (k *GatewayKeys) tellChange() {
	if k.Changed == nil {
		return
	}
	if data, err := json.Marshal(gatewayRows{k.keys, k.use}); err == nil {
		k.Changed(data)
	}
}

// Handler is the gateway's HTTP server.
func (g Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/liveliness", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, "I'm alive!") })
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "healthy", "db": "connected"})
	})
	for _, prefix := range []string{"", "/v1"} {
		mux.HandleFunc("GET "+prefix+"/models", g.as(g.models))
		mux.HandleFunc("POST "+prefix+"/chat/completions", g.as(g.chat))
	}
	mux.HandleFunc("POST /key/generate", g.admin(g.generate))
	mux.HandleFunc("POST /key/update", g.admin(g.update))
	mux.HandleFunc("POST /key/delete", g.admin(g.remove))
	mux.HandleFunc("GET /key/list", g.admin(g.list))
	mux.HandleFunc("GET /user/daily/activity", g.admin(g.activity))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, map[string]any{"detail": "Not Found"})
	})
	return mux
}

func refuse(w http.ResponseWriter, code int, kind, param, message string) {
	e := map[string]any{"message": message, "type": kind, "param": nil, "code": strconv.Itoa(code)}
	if param != "" {
		e["param"] = param
	}
	writeJSON(w, code, map[string]any{"error": e})
}

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// as finds out whose request it is; of the administrator's key there is nothing in the database.
func (g Gateway) as(then func(http.ResponseWriter, *http.Request, *gatewayKey)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Litellm-Api-Key")
		if key == "" {
			key = r.Header.Get("Authorization")
		}
		key = strings.TrimPrefix(key, "Bearer ")
		if key == g.Master {
			then(w, r, nil)
			return
		}
		known := g.Keys.find(key)
		if known == nil {
			_, _ = io.Copy(io.Discard, r.Body) // the caller may have no buffer for what nobody reads
		}
		switch {
		case key == "":
			refuse(w, http.StatusUnauthorized, "auth_error", "None", "Authentication Error, No api key passed in.")
		case !strings.HasPrefix(key, "sk-"):
			refuse(w, http.StatusUnauthorized, "auth_error", "None", "Authentication Error, LiteLLM Virtual Key expected. Received="+key[:min(4, len(key))]+"****, expected to start with 'sk-'.")
		case known == nil:
			refuse(w, http.StatusUnauthorized, "token_not_found_in_db", "key", fmt.Sprintf("Authentication Error, Invalid proxy server token passed. Received API Key = sk-...%s, "+
				"Key Hash (Token) =%s. Unable to find token in cache or `LiteLLM_VerificationTokenTable`", key[len(key)-min(4, len(key)-3):], hashOf(key)))
		default:
			then(w, r, known)
		}
	}
}

// admin lets the administrator in.
func (g Gateway) admin(then func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return g.as(func(w http.ResponseWriter, r *http.Request, k *gatewayKey) {
		if k != nil {
			_, _ = io.Copy(io.Discard, r.Body)
			writeJSON(w, http.StatusForbidden, map[string]any{"detail": fmt.Sprintf("Virtual key is not allowed to call this route. Only allowed to call routes: %q. Tried to call route: %s", k.Routes, r.URL.Path)})
			return
		}
		then(w, r)
	})
}

// may reports whether a key, nil is the administrator's, has a model.
func (k *gatewayKey) may(model string) bool {
	return k == nil || len(k.Models) == 0 || slices.Contains(k.Models, model)
}

func (g Gateway) models(w http.ResponseWriter, _ *http.Request, k *gatewayKey) {
	data := []any{}
	for _, m := range g.Models {
		if k.may(m.Name) {
			data = append(data, map[string]any{"id": m.Name, "object": "model", "created": 1677610602, "owned_by": "openai"})
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"data": data, "object": "list"})
}

func (g Gateway) chat(w http.ResponseWriter, r *http.Request, k *gatewayKey) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<20))
	var q struct {
		Model string `json:"model"`
	}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "", err.Error())
		return
	}
	i := slices.IndexFunc(g.Models, func(m Upstream) bool { return m.Name == q.Model })
	switch {
	case i < 0:
		refuse(w, http.StatusBadRequest, "invalid_request_error", "model",
			fmt.Sprintf("/chat/completions: Invalid model name passed in model=%s. Call `/v1/models` to view available models for your key.", q.Model))
		return
	case !k.may(q.Model):
		refuse(w, http.StatusForbidden, "key_model_access_denied", "model",
			fmt.Sprintf("The requested model '%s' is not available for this API key, or the model name is invalid. Check the models available to you and try again.", q.Model))
		return
	}
	if k != nil && !g.Keys.count(k, time.Now()) {
		refuse(w, http.StatusTooManyRequests, "throttling_error", "", fmt.Sprintf("Rate limit exceeded for api_key: %s. Limit type: requests. Current limit: %d, Remaining: 0. Limit resets at: %s",
			k.Token, *k.RPM, time.Now().Add(time.Minute).UTC().Format("2006-01-02 15:04:05 UTC")))
		return
	}
	body, hide := withUsage(body)
	answer := &usageReader{ResponseWriter: w, hide: hide, code: http.StatusOK}
	g.forward(answer, r, g.Models[i], body)
	if answer.code == http.StatusOK && answer.usage != nil {
		g.Keys.note(k, q.Model, *answer.usage, time.Now())
	}
}

// forward lets the engine answer.
func (g Gateway) forward(w http.ResponseWriter, r *http.Request, to Upstream, body []byte) {
	engine, err := g.Engine(to.Base)
	if err != nil {
		refuse(w, http.StatusInternalServerError, "", "", "litellm.InternalServerError: InternalServerError: Hosted_vllmException - Connection error.. Received Model Group="+to.Name)
		return
	}
	out := r.Clone(r.Context())
	out.Header.Del("X-Litellm-Api-Key")
	out.Header.Set("Authorization", "Bearer "+to.Key)
	out.URL.Path, out.RequestURI = "/v1/chat/completions", "/v1/chat/completions"
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	engine.ServeHTTP(w, out)
}

func (k *GatewayKeys) find(key string) *gatewayKey {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys[hashOf(key)]
}

// count notes a request, and reports whether the key's limit has room for it.
func (k *GatewayKeys) count(key *gatewayKey, now time.Time) bool {
	if key.RPM == nil {
		return true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	recent := slices.DeleteFunc(k.used[key.Token], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if len(recent) >= *key.RPM {
		return false
	}
	if k.used == nil {
		k.used = map[string][]time.Time{}
	}
	k.used[key.Token] = append(recent, now)
	return true
}

// change changes the keys, and reports them. change returns why it refuses.
func (k *GatewayKeys) change(change func(keys map[string]*gatewayKey) (code int, message string)) (int, string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := maps.Clone(k.keys)
	if next == nil {
		next = map[string]*gatewayKey{}
	}
	if code, message := change(next); message != "" {
		return code, message
	}
	k.keys = next
	k.tellChange()
	return http.StatusOK, ""
}

// keyRequest is what is read of a request about a key. A field that is null is set to nothing; one that is
// absent stays.
type keyRequest struct {
	Key   string `json:"key"`
	Alias string `json:"key_alias"`
	Type  string `json:"key_type"`
	gatewayKey
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(into)
	if err != nil {
		refuse(w, http.StatusBadRequest, "bad_request_error", "", err.Error())
	}
	return err == nil
}

// done answers a management request.
func done(w http.ResponseWriter, code int, message string, answer any) {
	if message != "" {
		refuse(w, code, "bad_request_error", "key", message)
		return
	}
	writeJSON(w, code, answer)
}

func (g Gateway) generate(w http.ResponseWriter, r *http.Request) {
	var q keyRequest
	if !read(w, r, &q) {
		return
	}
	made := q.gatewayKey
	made.Token, made.Alias = hashOf(q.Key), q.Alias
	if q.Type == "llm_api" {
		made.Routes = []string{"llm_api_routes"}
	}
	code, message := g.Keys.change(func(keys map[string]*gatewayKey) (int, string) {
		for _, k := range keys {
			if k.Alias == q.Alias {
				return http.StatusBadRequest, fmt.Sprintf("Key with alias '%s' already exists. Unique key aliases across all keys are required.", q.Alias)
			}
			if k.Token == made.Token {
				return http.StatusBadRequest, "Key already exists"
			}
		}
		if !strings.HasPrefix(q.Key, "sk-") {
			return http.StatusBadRequest, "Invalid key format. LiteLLM Virtual Key must start with 'sk-'"
		}
		keys[made.Token] = &made
		return 0, ""
	})
	done(w, code, message, map[string]any{"key": q.Key, "token": made.Token, "key_alias": made.Alias, "models": made.Models})
}

func (g Gateway) update(w http.ResponseWriter, r *http.Request) {
	var fields map[string]json.RawMessage
	if !read(w, r, &fields) {
		return
	}
	var token string
	_ = json.Unmarshal(fields["key"], &token)
	if strings.HasPrefix(token, "sk-") {
		token = hashOf(token)
	}
	code, message := g.Keys.change(func(keys map[string]*gatewayKey) (int, string) {
		old, ok := keys[token]
		if !ok {
			return http.StatusNotFound, "Key not found: " + token
		}
		now := *old
		for name, into := range map[string]any{"models": &now.Models, "rpm_limit": &now.RPM, "tpm_limit": &now.TPM} {
			if raw, set := fields[name]; set && json.Unmarshal(raw, into) != nil {
				return http.StatusUnprocessableEntity, name + " is not of its type"
			}
		}
		keys[token] = &now
		return 0, ""
	})
	done(w, code, message, map[string]any{"key": token})
}

func (g Gateway) remove(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Keys []string `json:"keys"`
	}
	if !read(w, r, &q) {
		return
	}
	code, message := g.Keys.change(func(keys map[string]*gatewayKey) (int, string) {
		for _, token := range q.Keys {
			if strings.HasPrefix(token, "sk-") {
				token = hashOf(token)
			}
			if keys[token] == nil {
				return http.StatusNotFound, "Not all keys passed in were found in DB"
			}
			delete(keys, token)
		}
		return 0, ""
	})
	done(w, code, message, map[string]any{"deleted_keys": q.Keys})
}

func (g Gateway) list(w http.ResponseWriter, r *http.Request) {
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	size, _ := strconv.Atoi(r.URL.Query().Get("size"))
	if page < 1 || size < 1 || size > 100 {
		refuse(w, http.StatusUnprocessableEntity, "", "", "page and size: Input should be from 1 to 100")
		return
	}
	g.Keys.mu.Lock()
	all := slices.Collect(maps.Values(g.Keys.keys))
	g.Keys.mu.Unlock()
	slices.SortFunc(all, func(a, b *gatewayKey) int { return strings.Compare(a.Token, b.Token) })
	some := all[min(len(all), (page-1)*size):min(len(all), page*size)]
	writeJSON(w, http.StatusOK, map[string]any{"keys": some, "total_count": len(all), "current_page": page, "total_pages": (len(all) + size - 1) / size})
}
