package kubeadm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	_ "embed" // the script below
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/converge"
	"github.com/cps-gpu/homelab/remote"
)

// Certificate is a certificate of Kubernetes on a machine.
type Certificate struct {
	File      string // below /etc/kubernetes/pki, e.g. etcd/ca.crt, or a login beside it, e.g. admin.conf
	Subject   string // its common name
	Authority bool
	From      time.Time
	Until     time.Time
}

// certsScript prints certificates and no key: kubelet's own, which it renews itself, is in one file with its key.
const certsScript = `cd /etc/kubernetes/pki 2>/dev/null || exit 0
for file in *.crt etcd/*.crt; do
	if [ -f "$file" ]; then
		printf '\n@@ %s\n' "$file"
		cat "$file"
	fi
done
for file in admin super-admin controller-manager scheduler; do
	data=$(sed -n 's/^ *client-certificate-data: *//p' "../$file.conf" 2>/dev/null)
	if [ -n "$data" ]; then
		printf '\n@@ %s.conf\n' "$file"
		printf '%s\n' "$data"
	fi
done`

// Certificates reads those on a machine, the first to end first. A machine that is not a member has none, and an
// agent has that of the authority alone.
func Certificates(ctx context.Context, r remote.Runner) ([]Certificate, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", certsScript)
	if err != nil {
		return nil, fmt.Errorf("read the certificates: %w", err)
	}
	var all []Certificate
	for _, part := range bytes.Split(out, []byte("\n@@ "))[1:] {
		name, text, _ := bytes.Cut(part, []byte("\n"))
		if strings.HasSuffix(string(name), ".conf") {
			decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
			if err != nil {
				return nil, fmt.Errorf("read the certificates: %s: %w", name, err)
			}
			text = decoded
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, fmt.Errorf("read the certificates: %s has none", name)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read the certificates: %s: %w", name, err)
		}
		all = append(all, Certificate{File: string(name), Subject: c.Subject.CommonName, Authority: c.IsCA, From: c.NotBefore, Until: c.NotAfter})
	}
	slices.SortFunc(all, func(a, b Certificate) int { return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.File, b.File)) })
	return all, nil
}

//go:embed renew.sh
var renewScript string

// RenewCertificates makes new certificates on a server, whose API is away for a moment. The authorities stay.
func RenewCertificates(ctx context.Context, r remote.Runner) error {
	converge.Progressf(ctx, "renewing the certificates of the control plane")
	if err := remote.Run(ctx, r, "sh", "-c", renewScript, "renew.sh", "all"); err != nil {
		return fmt.Errorf("renew the certificates: %w", err)
	}
	return nil
}
