package addon

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/kube/chart"
	"github.com/cps-gpu/homelab/kube/verify"
	"github.com/cps-gpu/homelab/secret"
)

const (
	// ExternalDNSName is the name of the part.
	ExternalDNSName      = "external-dns"
	externalDNSNamespace = "external-dns"
)

// ExternalDNS keeps records for the names of Ingresses, routes and annotated Services in the zones of
// the file. TXT records beside them name this cluster as their owner; it changes no others.
type ExternalDNS struct {
	*spec.DNS
	Cluster string // the owner of its records: clusters share a zone
}

func (e ExternalDNS) Info() Info {
	i := Info{
		Name: ExternalDNSName, Section: "dns", On: e.DNS != nil && e.Records.IsOn(),
		Namespace: externalDNSNamespace,
		Chart: chart.Pin{
			Chart: "external-dns", Repo: "https://kubernetes-sigs.github.io/external-dns",
			Version: "1.21.1", App: "0.21.0", Compared: "2026-11-29",
			Source: "pinned and read: tag external-dns-helm-chart-1.21.1, 2026-11-29, Chart.yaml, values.yaml; flags: v0.21.0, pkg/apis/externaldns/types.go",
		},
	}
	if i.On {
		i.Stays = "records in " + strings.Join(e.Zones, ", ")
	}
	return i
}

func (e ExternalDNS) Make(s *Site) (Recipe, error) {
	sources := []any{"service", "ingress"}
	if s.gateway() != nil {
		sources = append(sources, "gateway-httproute")
	}
	v := values{
		"sources": sources, "domainFilters": e.Zones, "registry": "txt", "txtOwnerId": e.Cluster,
		// A TXT record of the name itself would forbid a CNAME there, and be mistaken for a page's own.
		"txtPrefix": "homelab-",
		// With sync, a record of a name that is gone goes too: only of those that it made.
		"policy": "sync",
	}
	secrets, err := e.provider(s, v)
	if err != nil {
		return Recipe{}, err
	}
	s.tolerate(v, nil)
	return Recipe{Verify: []verify.Check{{Name: "names lead to the cluster", Try: e.namesLead}}, Part: chart.Part{Name: ExternalDNSName, Release: s.release(e.Info(), v), Secrets: secrets}}, nil
}

// provider sets who serves the zones, and returns the credentials for it.
func (e ExternalDNS) provider(s *Site, v values) ([]chart.Secret, error) {
	credentials, err := zone{e.DNS}.credentials(s)
	if err != nil {
		return nil, err
	}
	const name = "external-dns-credentials"
	from := func(variable, key string) values {
		return values{"name": variable, "valueFrom": values{"secretKeyRef": values{"name": name, "key": key}}}
	}
	switch {
	case e.Cloudflare != nil:
		v["provider"], v["env"] = values{"name": "cloudflare"}, []any{from("CF_API_TOKEN", tokenKey)}
	case e.Route53 != nil:
		v["provider"] = values{"name": "aws"}
		v["env"] = []any{
			values{"name": "AWS_ACCESS_KEY_ID", "value": e.Route53.AccessKey}, from("AWS_SECRET_ACCESS_KEY", tokenKey),
			values{"name": "AWS_DEFAULT_REGION", "value": e.Route53.Region},
		}
		// By itself it also writes to every private zone of the name, and finds no zone that a name of the file is only a part of.
		args := values{"aws-zone-match-parent": true, "aws-zone-type": "public"}
		if e.Route53.HostedZone != "" {
			args = values{"aws-zone-match-parent": true, "zone-id-filter": e.Route53.HostedZone}
		}
		v["extraArgs"] = args
	case e.RFC2136 != nil:
		host, port, err := net.SplitHostPort(e.RFC2136.Server)
		if err != nil {
			return nil, fmt.Errorf("dns.rfc2136.server: %w", err)
		}
		v["provider"], v["env"] = values{"name": "rfc2136"}, []any{from("EXTERNAL_DNS_RFC2136_TSIG_SECRET", tokenKey)}
		v["extraArgs"] = values{
			"rfc2136-host": host, "rfc2136-port": port, "rfc2136-zone": e.Zones,
			"rfc2136-tsig-keyname": e.RFC2136.Key, "rfc2136-tsig-secret-alg": e.RFC2136.Algorithm,
			"rfc2136-tsig-axfr": true, // without a transfer it cannot see, and so not remove, its own records
		}
	}
	return []chart.Secret{{Namespace: externalDNSNamespace, Name: name, Data: credentials}}, nil
}

// zone is who serves the zones of the file.
type zone struct{ *spec.DNS }

// tokenKey is the key of the secret part of the credentials in their Secret.
const tokenKey = "token"

// credentials reads the secret part of the credentials; nothing for a webhook, which has its own.
func (z zone) credentials(s *Site) (map[string]secret.Value, error) {
	var token secret.Value
	var err error
	switch {
	case z.Cloudflare != nil:
		token, err = s.Secret("dns.cloudflare.token", z.Cloudflare.Token)
	case z.Route53 != nil:
		token, err = s.Secret("dns.route53.secretKey", z.Route53.SecretKey)
	case z.RFC2136 != nil:
		token, err = s.Secret("dns.rfc2136.secret", z.RFC2136.Secret)
	default:
		return nil, nil
	}
	if err == nil && strings.ContainsAny(token.Reveal(), "\r\n") {
		err = errors.New("dns: the credentials contain a line break")
	}
	return map[string]secret.Value{tokenKey: token}, err
}

// solver is the solver of cert-manager's for names in the zones, and the Secret that it reads.
func (z zone) solver(s *Site, name string) (values, []chart.Secret, error) {
	credentials, err := z.credentials(s)
	if err != nil {
		return nil, nil, err
	}
	ref := values{"name": name, "key": tokenKey}
	how := values{}
	switch {
	case z.Cloudflare != nil:
		how["cloudflare"] = values{"apiTokenSecretRef": ref}
	case z.Route53 != nil:
		r := values{"accessKeyID": z.Route53.AccessKey, "secretAccessKeySecretRef": ref, "region": z.Route53.Region}
		if z.Route53.HostedZone != "" {
			r["hostedZoneID"] = z.Route53.HostedZone
		}
		how["route53"] = r
	case z.RFC2136 != nil:
		how["rfc2136"] = values{
			"nameserver": z.RFC2136.Server, "tsigKeyName": z.RFC2136.Key, "tsigSecretSecretRef": ref,
			"tsigAlgorithm": strings.ToUpper(strings.ReplaceAll(z.RFC2136.Algorithm, "-", "")),
		}
	default:
		w := values{"groupName": z.Webhook.Group, "solverName": z.Webhook.Solver}
		if len(z.Webhook.Config) > 0 {
			w["config"] = z.Webhook.Config
		}
		how["webhook"] = w
	}
	solver := values{"dns01": how, "selector": values{"dnsZones": z.Zones}}
	if credentials == nil {
		return solver, nil, nil
	}
	return solver, []chart.Secret{{Namespace: certManagerNamespace, Name: name, Data: credentials}}, nil
}
