package zones

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// Cloudflare is a client of Cloudflare's API. It sends the requests of cert-manager (pkg/issuer/acme/dns/cloudflare/cloudflare.go)
// and of external-dns (provider/cloudflare/cloudflare.go, cloudflare_batch.go).
type Cloudflare struct{ Address, Token string }

// CloudflareOf has the address that cloudflare-go takes from the environment (client.go).
func CloudflareOf(token string) Cloudflare {
	return Cloudflare{strings.TrimSuffix(os.Getenv("CLOUDFLARE_BASE_URL"), "/"), token}
}

type cloudflareRecord struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Content string `json:"content"`
	TTL     int    `json:"ttl,omitempty"`
}

func (c Cloudflare) ask(ctx context.Context, method, path string, body, result any) (pages int, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return 0, fmt.Errorf("Cloudflare: %w", err) //nolint:staticcheck // a name
		}
	}
	_, said, err := exchange(ctx, method, c.Address+path, text, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.Token) })
	if err != nil {
		return 0, err
	}
	var answer struct {
		Success bool
		Errors  []struct {
			Code    int
			Message string
		}
		Result json.RawMessage
		Info   struct {
			Pages int `json:"total_pages"`
		} `json:"result_info"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return 0, fmt.Errorf("while querying the Cloudflare API for %s %q: %w", method, path, err)
	}
	if !answer.Success {
		var why strings.Builder
		for _, e := range answer.Errors {
			fmt.Fprintf(&why, "\t Error: %d: %s", e.Code, e.Message)
		}
		return 0, fmt.Errorf("while querying the Cloudflare API for %s %q \n%s", method, path, why.String()) //nolint:revive,staticcheck // cert-manager's words
	}
	if result == nil {
		return answer.Info.Pages, nil
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return 0, fmt.Errorf("Cloudflare: %w", err) //nolint:staticcheck // a name
	}
	return answer.Info.Pages, nil
}

// listed finds a zone as external-dns does, in the list of all.
func (c Cloudflare) listed(ctx context.Context, zone string) (string, error) {
	for page, pages := 1, 1; page <= pages; page++ {
		var all []struct{ ID, Name string }
		var err error
		if pages, err = c.ask(ctx, http.MethodGet, fmt.Sprintf("/zones?page=%d", page), nil, &all); err != nil {
			return "", err
		}
		for _, z := range all {
			if z.Name == zone {
				return z.ID, nil
			}
		}
	}
	return "", nil
}

// named finds the zone of a name as cert-manager does, from the name upwards.
func (c Cloudflare) named(ctx context.Context, name string) (string, error) {
	for at := name; strings.Contains(at, "."); _, at, _ = strings.Cut(at, ".") {
		var all []struct{ ID string }
		if _, err := c.ask(ctx, http.MethodGet, "/zones?name="+at, nil, &all); err != nil {
			return "", err
		}
		if len(all) > 0 {
			return all[0].ID, nil
		}
	}
	return "", fmt.Errorf("Found no Zones for domain %s. (neither in the sub-domain nor in the SLD)", name) //nolint:staticcheck // cert-manager's words
}

func (c Cloudflare) records(ctx context.Context, id string) (out []cloudflareRecord, err error) {
	for page, pages := 1, 1; page <= pages; page++ {
		var some []cloudflareRecord
		if pages, err = c.ask(ctx, http.MethodGet, fmt.Sprintf("/zones/%s/dns_records?page=%d", id, page), nil, &some); err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// Records are those of a zone; none if the token does not see it.
func (c Cloudflare) Records(ctx context.Context, zone string) ([]dns.RR, error) {
	id, err := c.listed(ctx, zone)
	if err != nil || id == "" {
		return nil, err
	}
	all, err := c.records(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []dns.RR
	for _, r := range all {
		content := r.Content
		if r.Type == "TXT" && !strings.HasPrefix(content, `"`) {
			content = `"` + content + `"`
		}
		rr, err := parsed(r.Name, r.Type, content)
		if err != nil {
			return nil, err
		}
		out = append(out, rr)
	}
	return out, nil
}

// Update changes records in one batch. What is removed and inserted again stays.
func (c Cloudflare) Update(ctx context.Context, zone string, remove, insert []dns.RR) error {
	id, err := c.listed(ctx, zone)
	if err != nil || id == "" {
		return err
	}
	all, err := c.records(ctx, id)
	if err != nil {
		return err
	}
	const automatic = 1
	batch := map[string][]cloudflareRecord{}
	stays := func(rr dns.RR, in []dns.RR) bool {
		return slices.ContainsFunc(in, func(o dns.RR) bool { return o.Header().Name == rr.Header().Name && value(o) == value(rr) })
	}
	for _, rr := range remove {
		for _, r := range all {
			if r.Name == strings.TrimSuffix(rr.Header().Name, ".") && r.Type == dns.TypeToString[rr.Header().Rrtype] && r.Content == value(rr) && !stays(rr, insert) {
				batch["deletes"] = append(batch["deletes"], r)
			}
		}
	}
	for _, rr := range insert {
		if !stays(rr, remove) {
			batch["posts"] = append(batch["posts"], cloudflareRecord{Name: strings.TrimSuffix(rr.Header().Name, "."), Type: dns.TypeToString[rr.Header().Rrtype], Content: value(rr), TTL: automatic})
		}
	}
	_, err = c.ask(ctx, http.MethodPost, "/zones/"+id+"/dns_records/batch", batch, nil)
	return err
}

// challenge finds the record of a challenge; its content has no quotes.
func (c Cloudflare) challenge(ctx context.Context, record *dns.TXT) (id string, found cloudflareRecord, err error) {
	name := strings.TrimSuffix(record.Hdr.Name, ".")
	if id, err = c.named(ctx, name); err != nil {
		return "", found, err
	}
	var all []cloudflareRecord
	if _, err = c.ask(ctx, http.MethodGet, "/zones/"+id+"/dns_records?per_page=100&type=TXT&name="+name, nil, &all); err != nil {
		return "", found, err
	}
	for _, r := range all {
		if r.Content == record.Txt[0] {
			return id, r, nil
		}
	}
	return id, cloudflareRecord{Name: name, Type: "TXT", Content: record.Txt[0], TTL: 60}, nil
}

// Present shows the record of a challenge.
func (c Cloudflare) Present(ctx context.Context, _ string, record *dns.TXT) error {
	id, r, err := c.challenge(ctx, record)
	if err != nil || r.ID != "" {
		return err
	}
	_, err = c.ask(ctx, http.MethodPost, "/zones/"+id+"/dns_records", r, nil)
	return err
}

// CleanUp removes the record of a challenge.
func (c Cloudflare) CleanUp(ctx context.Context, _ string, record *dns.TXT) error {
	id, r, err := c.challenge(ctx, record)
	if err != nil || r.ID == "" {
		return err
	}
	_, err = c.ask(ctx, http.MethodDelete, "/zones/"+id+"/dns_records/"+r.ID, nil, nil)
	return err
}
