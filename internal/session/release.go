package session

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"

	"github.com/cps-gpu/homelab/converge"
)

// releaseTime is the time limit for the answer of K3s' release server.
const releaseTime = 5 * time.Second

// released refuses a missing release of K3s before it is installed: cluster:up would find out
// minutes later. If this machine cannot reach the server, the nodes may.
func (s *Session) released(ctx context.Context, p *converge.Plan) error {
	if !s.outside {
		return nil
	}
	return s.releasedAt(ctx, cluster.K3sURL(s.Spec), p)
}

func (s *Session) releasedAt(ctx context.Context, url string, p *converge.Plan) error {
	if url == "" || !installs(p) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // a redirect means that the file exists
	answer, err := client.Do(req)
	if err != nil {
		return nil //nolint:nilerr // the nodes may reach it
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusNotFound {
		return nil
	}
	return failedf(invalid, "k3s.version: there is no release %s (%s is not found); write one of https://github.com/k3s-io/k3s/releases", s.Spec.K3s.Version, url)
}

// installs reports whether a plan would install K3s.
func installs(p *converge.Plan) bool {
	for _, it := range p.Items {
		kind, _, _ := strings.Cut(it.Step, "/")
		if (kind == "template" || kind == "k3s") && it.Verdict != converge.Clean {
			return true
		}
	}
	return false
}
