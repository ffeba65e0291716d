package zone

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// cloudflare asks what cert-manager and external-dns will ask. Sources: cert-manager, pkg/issuer/acme/dns/cloudflare/cloudflare.go;
// external-dns, provider/cloudflare/cloudflare.go.
type cloudflare struct {
	api, token string
	records    bool // external-dns keeps records
}

type cloudflareZone struct{ ID, Name, Status string }

// check checks that a token sees a zone, or the zone that it is part of, and reads its records. Whether
// it may change them no request tells without changing one.
func (c cloudflare) check(ctx context.Context, zone string) error {
	for name := zone; strings.Contains(name, "."); _, name, _ = strings.Cut(name, ".") {
		var zones []cloudflareZone
		if _, err := c.ask(ctx, "/zones?name="+url.QueryEscape(name), &zones); err != nil {
			return err
		}
		if len(zones) == 0 {
			continue
		}
		if err := c.serves(ctx, zone, zones[0]); err != nil {
			return err
		}
		_, err := c.ask(ctx, "/zones/"+url.PathEscape(zones[0].ID)+"/dns_records?per_page=1", nil)
		return err
	}
	return errors.New("the token of dns.cloudflare sees no such zone at Cloudflare: give it Zone:Zone:Read and Zone:DNS:Edit for this zone, or correct dns.zones")
}

// serves checks what of a zone can be known without its records. external-dns lists all zones, and takes those with
// the names of the file; it does not look for the zone that a name is part of.
func (c cloudflare) serves(ctx context.Context, zone string, z cloudflareZone) error {
	switch {
	case z.Status == "pending" || z.Status == "moved":
		return fmt.Errorf("Cloudflare does not serve it (it is %q): write Cloudflare's name servers at the registrar of %s first", z.Status, z.Name)
	case !c.records:
		return nil
	case z.Name != zone:
		return fmt.Errorf("at Cloudflare it is part of the zone %s, and external-dns would not find it: write zones: [%[1]s], or records: false", z.Name)
	}
	for page := 1; ; page++ {
		var zones []cloudflareZone
		pages, err := c.ask(ctx, fmt.Sprintf("/zones?per_page=50&page=%d", page), &zones)
		if err != nil {
			return fmt.Errorf("external-dns could not list the zones: %w", err)
		}
		for _, each := range zones {
			if each.ID == z.ID {
				return nil
			}
		}
		if page >= pages {
			return errors.New("Cloudflare does not list it for the token of dns.cloudflare, so external-dns would not find it: give the token Zone:Zone:Read for this zone")
		}
	}
}

// maxAnswer limits the size of an answer, in bytes.
const maxAnswer = 1 << 20

// ask asks for one page, and returns how many there are.
func (c cloudflare) ask(ctx context.Context, path string, result any) (pages int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api+path, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, text, err := do(req)
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
	bad := json.Unmarshal(text, &answer)
	switch {
	case resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests:
		return 0, fmt.Errorf("Cloudflare answers %s: try again later", resp.Status)
	case bad == nil && !answer.Success:
		var said []string
		for _, e := range answer.Errors {
			said = append(said, fmt.Sprintf("%s (%d)", e.Message, e.Code))
		}
		return 0, fmt.Errorf("Cloudflare refuses the token of dns.cloudflare: %s: %s; give it Zone:Zone:Read and Zone:DNS:Edit for this zone", resp.Status, strings.Join(said, ", "))
	case bad != nil:
		return 0, fmt.Errorf("Cloudflare answers %s with something that is not its API: %w", resp.Status, bad)
	case result == nil:
		return answer.Info.Pages, nil
	}
	return answer.Info.Pages, json.Unmarshal(answer.Result, result)
}
