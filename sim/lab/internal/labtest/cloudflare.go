package labtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// Cloudflare plays Cloudflare's API for one token and one zone, whose records it puts into a name server. It has the requests of
// cert-manager, external-dns and homelab, with the forms of developers.cloudflare.com/api (zones, dns/subresources/records).
type Cloudflare struct {
	Address string
	Token   string

	names   NameServer
	zone    string
	limited atomic.Bool
	refused atomic.Int32
	lock    sync.Mutex
	next    int
	records []cloudflareRecord
}

type cloudflareRecord struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	TTL     int    `json:"ttl"`
	Proxied bool   `json:"proxied"`
}

const cloudflareZone = "023e105f4ecef8ad9ca31a8372d0c353"

// NewCloudflare starts the API for a zone of a name server.
func NewCloudflare(t *testing.T, names NameServer, zone string) *Cloudflare {
	t.Helper()
	c := &Cloudflare{Token: "a-token-of-forty-characters-or-about-so-", names: names, zone: zone}
	api := http.NewServeMux()
	api.HandleFunc("GET /client/v4/zones", c.zones)
	api.HandleFunc("GET /client/v4/zones/{zone}/dns_records", c.list)
	api.HandleFunc("POST /client/v4/zones/{zone}/dns_records", func(w http.ResponseWriter, r *http.Request) {
		var made cloudflareRecord
		if c.read(w, r, &made) {
			c.change(t, w, nil, []cloudflareRecord{made})
		}
	})
	api.HandleFunc("DELETE /client/v4/zones/{zone}/dns_records/{id}", func(w http.ResponseWriter, r *http.Request) {
		c.change(t, w, []cloudflareRecord{{ID: r.PathValue("id")}}, nil)
	})
	api.HandleFunc("POST /client/v4/zones/{zone}/dns_records/batch", func(w http.ResponseWriter, r *http.Request) {
		var batch struct{ Deletes, Posts []cloudflareRecord }
		if c.read(w, r, &batch) {
			c.change(t, w, batch.Deletes, batch.Posts)
		}
	})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch of := strings.Split(r.URL.Path, "/"); {
		case c.limited.Load():
			c.refused.Add(1)
			c.fail(w, http.StatusTooManyRequests, 10100, "Rate limited. Please wait and consider throttling your request speed")
		case r.Header.Get("Authorization") != "Bearer "+c.Token:
			c.fail(w, http.StatusForbidden, 9109, "Invalid access token")
		case len(of) > 4 && of[4] != cloudflareZone:
			c.fail(w, http.StatusNotFound, 7003, "Could not route to "+r.URL.Path+", perhaps your object identifier is invalid?")
		default:
			api.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	c.Address = s.URL + "/client/v4"
	return c
}

// Limit makes the API refuse all requests for their number, or no longer.
func (c *Cloudflare) Limit(on bool) { c.limited.Store(on) }

// Refused is how many requests were refused for their number.
func (c *Cloudflare) Refused() int { return int(c.refused.Load()) }

func (c *Cloudflare) fail(w http.ResponseWriter, status, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"success": false, "errors": []any{map[string]any{"code": code, "message": message}}, "messages": []any{}, "result": nil})
}

func (c *Cloudflare) read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := json.NewDecoder(r.Body).Decode(into)
	if err != nil {
		c.fail(w, http.StatusBadRequest, 9207, "Request body is invalid.")
	}
	return err == nil
}

// page answers one page of a list.
func page[T any](w http.ResponseWriter, r *http.Request, all []T) {
	number, size := 1, 20
	_, _ = fmt.Sscan(r.URL.Query().Get("page"), &number)
	_, _ = fmt.Sscan(r.URL.Query().Get("per_page"), &size)
	part := all[min((number-1)*size, len(all)):min(number*size, len(all))]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"success": true, "errors": []any{}, "messages": []any{}, "result": slices.Concat([]T{}, part),
		"result_info": map[string]any{"page": number, "per_page": size, "count": len(part), "total_count": len(all), "total_pages": (len(all) + size - 1) / size},
	})
}

func (c *Cloudflare) zones(w http.ResponseWriter, r *http.Request) {
	all := []map[string]any{{"id": cloudflareZone, "name": c.zone, "status": "active", "paused": false, "type": "full"}}
	if name := r.URL.Query().Get("name"); name != "" && name != c.zone {
		all = nil
	}
	page(w, r, all)
}

func (c *Cloudflare) list(w http.ResponseWriter, r *http.Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	q := r.URL.Query()
	page(w, r, slices.DeleteFunc(slices.Clone(c.records), func(rec cloudflareRecord) bool {
		return q.Get("type") != "" && q.Get("type") != rec.Type || q.Get("name") != "" && q.Get("name") != rec.Name
	}))
}

// change does all or nothing: first what goes, then what comes.
func (c *Cloudflare) change(t *testing.T, w http.ResponseWriter, gone, made []cloudflareRecord) {
	c.lock.Lock()
	defer c.lock.Unlock()
	next := slices.Clone(c.records)
	var remove, insert []dns.RR
	for _, g := range gone {
		i := slices.IndexFunc(next, func(rec cloudflareRecord) bool { return rec.ID == g.ID })
		if i < 0 {
			c.fail(w, http.StatusNotFound, 81044, "Record does not exist.")
			return
		}
		remove = append(remove, c.record(t, next[i]))
		next = slices.Delete(next, i, i+1)
	}
	for i, m := range made {
		if slices.ContainsFunc(next, func(rec cloudflareRecord) bool {
			return rec.Name == m.Name && rec.Type == m.Type && rec.Content == m.Content
		}) {
			c.fail(w, http.StatusBadRequest, 81058, "An identical record already exists.")
			return
		}
		c.next++
		made[i].ID = fmt.Sprintf("%032x", c.next)
		next, insert = append(next, made[i]), append(insert, c.record(t, made[i]))
	}
	c.names.update(t, c.zone, remove, insert)
	c.records = next
	var result any = map[string]any{"deletes": gone, "posts": made}
	if len(made) == 1 && len(gone) == 0 {
		result = made[0]
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "errors": []any{}, "messages": []any{}, "result": result})
}

func (c *Cloudflare) record(t *testing.T, r cloudflareRecord) dns.RR {
	t.Helper()
	content := r.Content
	if r.Type == "TXT" && !strings.HasPrefix(content, `"`) {
		content = `"` + content + `"`
	}
	return record(t, r.Name, r.Type, content)
}
