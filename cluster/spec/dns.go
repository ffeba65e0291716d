package spec

import (
	"slices"
	"strings"
)

// Ways in which an ACME authority proves that a name is ours.
const (
	ChallengeHTTP = "http" // it fetches a page from the name, on port 80
	ChallengeDNS  = "dns"  // it reads a record of the name's zone
)

// DNS has the zones with the cluster's names and the one service that serves them. Certificates by
// ACME prove names with records in these zones; with Records, the names of pages and Services are
// kept there too.
type DNS struct {
	Zones      []string     `yaml:"zones" required:"true" doc:"Zones that the credentials may change, e.g. ‘[home.example]’. Names in other zones are left alone."`
	Records    Switch       `yaml:"records" absent:"‘false’" doc:"external-dns keeps records for the names of Ingresses, routes and annotated Services. It changes only records that it made."`
	Resolvers  []string     `yaml:"resolvers" absent:"those of the nodes, then the zone's own servers" doc:"Name servers, as ‘address:port’, that see a new record of a challenge. For networks that redirect DNS or serve another view of the zone."`
	Cloudflare *Cloudflare  `yaml:"cloudflare" absent:"off" doc:"Cloudflare serves the zones: a reference to a token, or the key below."`
	Route53    *Route53     `yaml:"route53" absent:"off" doc:"Amazon Route 53 serves the zones."`
	RFC2136    *RFC2136     `yaml:"rfc2136" absent:"off" doc:"A name server that takes signed updates: BIND, Knot, PowerDNS, Technitium, Windows."`
	Webhook    *ACMEWebhook `yaml:"webhook" absent:"off" doc:"A solver for cert-manager that you install, for every other service."`
}

// Has reports whether a name is in one of the zones.
func (d *DNS) Has(name string) bool {
	return slices.ContainsFunc(d.Zones, func(zone string) bool { return name == zone || strings.HasSuffix(name, "."+zone) })
}

// Cloudflare is access to zones at Cloudflare.
type Cloudflare struct {
	Token SecretRef `yaml:"token" short:"text" required:"true" doc:"Reference to an API token with ‘Zone:DNS:Edit’ and ‘Zone:Zone:Read’ for the zones alone."`
}

// Route53 is access to hosted zones at AWS.
type Route53 struct {
	AccessKey  string    `yaml:"accessKey" required:"true" doc:"ID of the access key."`
	SecretKey  SecretRef `yaml:"secretKey" required:"true" doc:"Reference to the secret of the access key."`
	Region     string    `yaml:"region" default:"us-east-1" doc:"Region for signatures; Route 53 itself has none."`
	HostedZone string    `yaml:"hostedZone" absent:"looked up by name" doc:"ID of the hosted zone, if several have its name, or for a key that may not look it up. With ‘records’ the key needs ‘route53:ListHostedZones’ in any case."`
}

// RFC2136 is a name server that takes updates signed with a TSIG key.
type RFC2136 struct {
	Server    string    `yaml:"server" required:"true" doc:"‘address’ or ‘address:port’ of the zones' primary server."`
	Key       string    `yaml:"key" required:"true" doc:"Name of the TSIG key."`
	Secret    SecretRef `yaml:"secret" required:"true" doc:"Reference to the key, in base64."`
	Algorithm string    `yaml:"algorithm" default:"hmac-sha256" enum:"hmac-sha1,hmac-sha256,hmac-sha512" doc:"Algorithm of the key."`
}

// ACMEWebhook is a solver of cert-manager's that its user installs. external-dns cannot use it.
type ACMEWebhook struct {
	Group  string         `yaml:"group" required:"true" doc:"The webhook's API group."`
	Solver string         `yaml:"solver" required:"true" doc:"The webhook's name of its solver."`
	Config map[string]any `yaml:"config" doc:"The solver's own settings. No secrets: it refers to Secrets in ‘cert-manager’."`
}
