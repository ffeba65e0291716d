package modelserver

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/secret"
)

// Gateway is LiteLLM in front of the servers, asked with its administrator's key.
type Gateway struct {
	kube   *kube.Client
	master secret.Value
}

// FindGateway finds the cluster's gateway; nil: it has none.
func FindGateway(ctx context.Context, k *kube.Client) (*Gateway, error) {
	data, err := k.SecretData(ctx, Namespace, GatewayService)
	if err != nil && !errors.Is(err, kube.ErrNotFound) {
		return nil, err
	}
	if len(data[MasterKey]) == 0 {
		return nil, nil
	}
	return &Gateway{k, secret.New(string(data[MasterKey]))}, nil
}

// Limits are what a key may do.
type Limits struct {
	Models   []string // sorted; none: all
	Requests int      // a minute; 0: no limit
	Tokens   int      // a minute; 0: no limit
}

// Key is a key of the gateway. It keeps a key's SHA-256 and not the key.
type Key struct {
	Name string // its alias, which is unique
	Hash string
	Ours bool // homelab made it
	Limits
}

// KeyHash is what the gateway keeps of a key.
func KeyHash(key secret.Value) string {
	sum := sha256.Sum256([]byte(key.Reveal()))
	return hex.EncodeToString(sum[:])
}

// The mark of keys that homelab made, in their metadata.
const markKey, markValue = "managed-by", "homelab"

// maxPages bounds the reading of a list.
const maxPages = 100

// pages reads a list page by page, and does not take a part of it for the whole.
func pages(what string, read func(page int) (more bool, err error)) error {
	for page := 1; page <= maxPages; page++ {
		if more, err := read(page); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("the models' gateway has more than %d pages of %s", maxPages, what)
}

// Keys lists all keys (litellm/proxy/management_endpoints/key_management_endpoints.py, as all requests here).
func (g *Gateway) Keys(ctx context.Context) (out []Key, err error) {
	err = pages("keys", func(page int) (bool, error) {
		var list struct {
			Keys []struct {
				Token    string         `json:"token"`
				Alias    string         `json:"key_alias"`
				Models   []string       `json:"models"`
				RPM      int            `json:"rpm_limit"`
				TPM      int            `json:"tpm_limit"`
				Metadata map[string]any `json:"metadata"`
			} `json:"keys"`
			Pages int `json:"total_pages"`
		}
		query := url.Values{"return_full_object": {"true"}, "size": {"100"}, "page": {strconv.Itoa(page)}}
		if err := g.do(ctx, "/key/list", query, nil, &list); err != nil {
			return false, err
		}
		for _, k := range list.Keys {
			slices.Sort(k.Models)
			out = append(out, Key{Name: k.Alias, Hash: k.Token, Ours: k.Metadata[markKey] == markValue, Limits: Limits{k.Models, k.RPM, k.TPM}})
		}
		return page < list.Pages, nil
	})
	return out, err
}

// limitsOf are limits as the gateway takes them: null is none.
func limitsOf(l Limits, body map[string]any) map[string]any {
	body["models"], body["rpm_limit"], body["tpm_limit"] = append([]string{}, l.Models...), nil, nil
	if l.Requests > 0 {
		body["rpm_limit"] = l.Requests
	}
	if l.Tokens > 0 {
		body["tpm_limit"] = l.Tokens
	}
	return body
}

// Add makes a key of this value.
func (g *Gateway) Add(ctx context.Context, name string, value secret.Value, l Limits) error {
	return g.do(ctx, "/key/generate", nil, limitsOf(l, map[string]any{
		"key": value.Reveal(), "key_alias": name, "metadata": map[string]any{markKey: markValue}, "key_type": "llm_api"}), nil)
}

// Limit changes what a key may do.
func (g *Gateway) Limit(ctx context.Context, hash string, l Limits) error {
	return g.do(ctx, "/key/update", nil, limitsOf(l, map[string]any{"key": hash}), nil)
}

// Revoke deletes a key: from then on it is refused.
func (g *Gateway) Revoke(ctx context.Context, hash string) error {
	return g.do(ctx, "/key/delete", nil, map[string]any{"keys": []string{hash}}, nil)
}

// administrator is how the gateway names rows of its administrator's key, which have no alias.
const administrator = "litellm_proxy_master_key"

// Use is what a key used of a model. Its keys of JSON are added to, and never change their meaning.
type Use struct {
	Key      string `json:"key"` // its alias; of one without, the beginning of its hash
	Model    string `json:"model"`
	Requests int    `json:"requests"` // that were answered
	Input    int    `json:"inputTokens"`
	Output   int    `json:"outputTokens"`
}

// Use sums up what each key used of each model from one day to another, of UTC and both included, by key and
// model (litellm/proxy/management_endpoints/common_daily_activity.py). Keys that are gone are in it.
func (g *Gateway) Use(ctx context.Context, from, to time.Time) ([]Use, error) {
	sums := map[[2]string]*Use{}
	err := pages("use; ask for fewer days", func(page int) (bool, error) {
		var list struct {
			Results []struct {
				Breakdown struct {
					Models map[string]struct {
						Keys map[string]keyMetrics `json:"api_key_breakdown"`
					} `json:"model_groups"`
				} `json:"breakdown"`
			} `json:"results"`
			Metadata struct {
				More bool `json:"has_more"`
			} `json:"metadata"`
		}
		query := url.Values{"start_date": {from.UTC().Format(time.DateOnly)}, "end_date": {to.UTC().Format(time.DateOnly)},
			"page_size": {"1000"}, "page": {strconv.Itoa(page)}}
		if err := g.do(ctx, "/user/daily/activity", query, nil, &list); err != nil {
			return false, err
		}
		for _, day := range list.Results {
			for model, m := range day.Breakdown.Models {
				for hash, k := range m.Keys {
					k.add(sums, g.keyName(hash, k.Metadata.Alias), model)
				}
			}
		}
		return list.Metadata.More, nil
	})
	if err != nil {
		return nil, err
	}
	var out []Use
	for _, u := range sums {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b Use) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model)) })
	return out, nil
}

// keyMetrics are what a key used of a model on one day.
type keyMetrics struct {
	Metrics struct {
		Requests int `json:"successful_requests"`
		Input    int `json:"prompt_tokens"`
		Output   int `json:"completion_tokens"`
	} `json:"metrics"`
	Metadata struct {
		Alias string `json:"key_alias"`
	} `json:"metadata"`
}

func (k keyMetrics) add(sums map[[2]string]*Use, key, model string) {
	sum := sums[[2]string{key, model}]
	if sum == nil {
		sum = &Use{Key: key, Model: model}
		sums[[2]string{key, model}] = sum
	}
	sum.Requests += k.Metrics.Requests
	sum.Input += k.Metrics.Input
	sum.Output += k.Metrics.Output
}

// keyName is what people call a key.
func (g *Gateway) keyName(hash, alias string) string {
	switch {
	case alias != "":
		return alias
	case hash == administrator || hash == KeyHash(g.master):
		return "(administrator)"
	}
	return hash[:min(len(hash), 8)] + "…"
}

// do sends a request, and reads the answer into out.
func (g *Gateway) do(ctx context.Context, path string, query url.Values, body, out any) error {
	resp, err := g.ask(ctx, path, query, body)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return fmt.Errorf("the gateway's %s: %w", path, err)
	}
	return nil
}

// ask sends a request as the administrator. An answer other than 200 is a GatewayError.
func (g *Gateway) ask(ctx context.Context, path string, query url.Values, body any) (*http.Response, error) {
	header := http.Header{}
	header.Set("x-litellm-api-key", g.master.Reveal()) // of litellm/proxy/_types.py, SpecialHeaders
	resp, err := g.kube.AskService(ctx, kube.ServiceRequest{Namespace: Namespace, Service: GatewayService, Port: PortName,
		Path: path, Query: query, Header: header, Body: body})
	if err != nil || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("the gateway's %s: %w", path, err)
	}
	if resp.StatusCode == http.StatusUnauthorized { // its words have a part of the key, and its hash
		return nil, &GatewayError{resp.StatusCode, "it does not take the key of the Secret " + Namespace + "/" + GatewayService +
			": kubectl -n " + Namespace + " rollout restart deployment " + GatewayService}
	}
	return nil, &GatewayError{resp.StatusCode, messageOf(said)}
}

// GatewayError is an error that the gateway answered with.
type GatewayError struct {
	Status  int // of HTTP
	Message string
}

// Error returns the gateway's message.
func (e *GatewayError) Error() string {
	return fmt.Sprintf("the gateway answers HTTP %d: %s", e.Status, e.Message)
}
