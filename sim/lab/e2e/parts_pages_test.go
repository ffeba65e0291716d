package e2e

import (
	"strings"
	"testing"

	"github.com/cps-gpu/homelab/internal/pages"
)

// whole is the file with the parts, and with what comes and goes in the section of K3s.
func (l *partsLife) whole(given string) string {
	return strings.Replace(given, "k3s: {", "k3s: {embeddedRegistry: true, ", 1) + l.with
}

// comeOnPages compares the pages with the plan and the run in which the parts come, and with the nodes.
func (l *partsLife) comeOnPages(t *testing.T, plan, talk string) {
	t.Helper()
	if l.tool != "" {
		return
	}
	pages.Compare(t, "docs/images.md", "embedded", plan, *update)
	pages.Compare(t, "docs/models.md", "chat", talk, *update)
	ids := l.asKubectl(t, "get", "nodes", "-o", "custom-columns=NAME:.metadata.name,ID:.spec.providerID")
	pages.Compare(t, "docs/nodes.md", "ids", ids, *update)
}

// changeOnPages compares them with the run that changes each part.
func (l *partsLife) changeOnPages(t *testing.T, talk string) {
	t.Helper()
	if l.tool != "" {
		return
	}
	pages.Compare(t, "docs/storage.md", "renewed", talk, *update)
	pages.Compare(t, "docs/platform.md", "tunnel", talk, *update)
	pages.Compare(t, "docs/platform.md", "logs", talk, *update)
}
