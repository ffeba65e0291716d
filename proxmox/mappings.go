package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/proxmox/internal/api"
)

// The kinds of resource mappings, as Proxmox's paths name them.
const (
	mappingPCI = "pci"
	mappingUSB = "usb"
)

// mappingEntry is a resource mapping of any kind, as the API lists it.
type mappingEntry struct {
	ID          string           `json:"id"`
	Description string           `json:"description"`
	Map         []string         `json:"map"`
	Digest      string           `json:"digest"`
	Checks      []mappingProblem `json:"checks"` // of PCI
	Errors      []mappingProblem `json:"errors"` // of USB
}

type mappingProblem struct {
	Message string `json:"message"`
}

// problems are what does not fit the host that was checked.
func (e mappingEntry) problems() []string {
	var out []string
	for _, p := range slices.Concat(e.Checks, e.Errors) {
		out = append(out, strings.TrimSpace(p.Message))
	}
	return out
}

// readMappings returns the mappings of a kind that the token may see, sorted by id. If host is not empty,
// Proxmox compares them with that host.
func (c *PCIClient) readMappings(ctx context.Context, kind, host string) ([]mappingEntry, error) {
	query := url.Values{}
	if host != "" {
		query.Set("check-node", host)
	}
	shared, err := api.GetShared[[]mappingEntry](ctx, c.pve, "/cluster/mapping/"+kind, query)
	if err != nil {
		return nil, err
	}
	all := make([]mappingEntry, len(shared)) // others read the answer, too
	for i, e := range shared {
		e.Description = strings.TrimSpace(e.Description)
		all[i] = e
	}
	sortBy(all, func(a, b mappingEntry) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// saveMapping creates a mapping, or changes one that exists.
func (c *PCIClient) saveMapping(ctx context.Context, kind, id string, exists bool, p api.Params) error {
	if exists {
		return c.pve.Call(ctx, http.MethodPut, "/cluster/mapping/"+kind+"/"+url.PathEscape(id), p, nil)
	}
	p["id"] = id
	return c.pve.Call(ctx, http.MethodPost, "/cluster/mapping/"+kind, p, nil)
}

func (c *PCIClient) deleteMapping(ctx context.Context, kind, id string) error {
	err := c.pve.Call(ctx, http.MethodDelete, "/cluster/mapping/"+kind+"/"+url.PathEscape(id), nil, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// hiddenMappingError is the error of a mapping that was just created and is not in the list.
func hiddenMappingError(kind, id string) error {
	return fmt.Errorf("mapping %s was created, but the token cannot see it: it lacks Mapping.Use or Mapping.Audit on /mapping/%s/%s", id, kind, id)
}
