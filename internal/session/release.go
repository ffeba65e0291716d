package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/proxmox/preflight"
)

// releaseTime is the time limit for the answer of K3s' release server.
const releaseTime = 5 * time.Second

// checkRelease refuses a missing release of K3s before it is installed: cluster:up would find out
// minutes later.
func checkRelease(s *Session, ctx context.Context, p *converge.Plan) error {
	if !s.outside {
		return nil
	}
	return checkReleaseAt(s, ctx, cluster.K3sURL(s.Spec), p)
}

func checkReleaseAt(s *Session, ctx context.Context, url string, p *converge.Plan) error {
	if !installs(p) || !isNotFound(ctx, url) {
		return nil
	}
	return exitError(invalid, s.errorAt("k3s.version", errors.New("k3s.version: "+missingReleaseText(s, url)+"; "+releases)))
}

// releases says which ones there are.
const releases = "write one of https://github.com/k3s-io/k3s/releases"

func missingReleaseText(s *Session, url string) string {
	return fmt.Sprintf("there is no release %s (%s is not found)", s.Spec.K3s.Version, url)
}

// releaseFindings is the finding of host:check about the release of K3s, if it is missing.
func releaseFindings(s *Session, ctx context.Context, url string) []preflight.Finding {
	if !isNotFound(ctx, url) {
		return nil
	}
	return []preflight.Finding{{
		ID: "release", Title: "the release of K3s exists", Subject: "k3s.version", Verdict: preflight.Error,
		Evidence: missingReleaseText(s, url), Cure: releases,
	}}
}

// isNotFound reports whether the server of K3s' releases says that it does not have a file. If this
// machine cannot reach the server, the nodes may.
func isNotFound(ctx context.Context, url string) bool {
	if url == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return false
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // a redirect means that the file exists
	answer, err := client.Do(req)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusNotFound
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
