package zone

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/cluster/spec"
)

// route53 asks what cert-manager and external-dns will ask. Sources: cert-manager, pkg/issuer/acme/dns/route53/route53.go;
// external-dns, provider/aws/aws.go.
type route53 struct {
	*spec.Route53
	signer
	api     string
	records bool // external-dns keeps records
}

// newRoute53 is access to the API of the region's partition. Source: aws-sdk-go-v2, service/route53/internal/endpoints.
func newRoute53(r *spec.Route53, secret, api string, records bool) route53 {
	host, region := "https://route53.amazonaws.com", "us-east-1"
	switch {
	case strings.HasPrefix(r.Region, "cn-"):
		host, region = "https://route53.amazonaws.com.cn", "cn-northwest-1"
	case strings.HasPrefix(r.Region, "us-gov-"):
		host, region = "https://route53.us-gov.amazonaws.com", "us-gov-west-1"
	}
	if api != "" {
		host = strings.TrimSuffix(api, "/")
	}
	return route53{r, signer{r.AccessKey, secret, region, "route53"}, host, records}
}

func (r route53) check(ctx context.Context, zone string) error {
	id := strings.TrimPrefix(r.HostedZone, "/hostedzone/")
	if id == "" {
		var err error
		if id, err = r.find(ctx, zone); err != nil {
			return err
		}
	}
	if r.records {
		if err := r.lists(ctx, id); err != nil {
			return fmt.Errorf("external-dns could not see its own records: %w", err)
		}
	}
	return r.changes(ctx, id, zone)
}

type hostedZone struct {
	ID     string `xml:"Id"`
	Name   string
	Config struct{ PrivateZone bool }
}

// find is the ID of a zone, or of the one that it is part of. Private zones are seen by no authority.
func (r route53) find(ctx context.Context, zone string) (string, error) {
	for name := zone; strings.Contains(name, "."); _, name, _ = strings.Cut(name, ".") {
		var answer struct {
			HostedZones []hostedZone `xml:"HostedZones>HostedZone"`
		}
		if err := r.ask(ctx, http.MethodGet, "/hostedzonesbyname?dnsname="+url.QueryEscape(name), nil, &answer); err != nil {
			return "", err
		}
		var public, private []string
		for _, z := range answer.HostedZones { // in the order of names, from this one on
			if z.Name != name+"." {
				continue
			}
			if id := strings.TrimPrefix(z.ID, "/hostedzone/"); z.Config.PrivateZone {
				private = append(private, id)
			} else {
				public = append(public, id)
			}
		}
		switch {
		case len(public) == 1:
			return public[0], nil
		case len(public) > 1:
			return "", fmt.Errorf("Route 53 has %d public zones %s (%s): write dns.route53.hostedZone with the one whose name servers the registrar has", len(public), name, strings.Join(public, ", "))
		case len(private) > 0:
			return "", fmt.Errorf("Route 53 has %s only as a private zone (%s), which neither an authority nor your network sees: create a public one, or correct dns.zones", name, strings.Join(private, ", "))
		}
	}
	return "", errors.New("the account of dns.route53 has no such zone: correct dns.zones, or write the key of the account that has it")
}

// lists checks that external-dns finds a zone and reads its records. It lists all zones, also if it is told the ID of one.
func (r route53) lists(ctx context.Context, id string) error {
	for marker, found := "", false; !found; {
		var answer struct {
			HostedZones []hostedZone `xml:"HostedZones>HostedZone"`
			IsTruncated bool
			NextMarker  string
		}
		if err := r.ask(ctx, http.MethodGet, "/hostedzone?maxitems=100"+marker, nil, &answer); err != nil {
			return err
		}
		for _, z := range answer.HostedZones {
			found = found || strings.TrimPrefix(z.ID, "/hostedzone/") == id
		}
		marker = "&marker=" + url.QueryEscape(answer.NextMarker)
		if !found && !answer.IsTruncated {
			return fmt.Errorf("the account of dns.route53 has no hosted zone %s: correct dns.route53.hostedZone", id)
		}
	}
	return r.ask(ctx, http.MethodGet, "/hostedzone/"+url.PathEscape(id)+"/rrset?maxitems=1", nil, nil)
}

type (
	record struct {
		Name, Type string
		TTL        int
		Values     []string `xml:"ResourceRecords>ResourceRecord>Value"`
	}
	change struct {
		Action            string
		ResourceRecordSet record
	}
	changeBatch struct {
		XMLName xml.Name `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ChangeResourceRecordSetsRequest"`
		Changes []change `xml:"ChangeBatch>Changes>Change"`
	}
)

// changes asks to delete a record that cannot exist, because its value or its name is random. A key that may change the zone
// gets the answer InvalidChangeBatch, on which cert-manager relies too, and nothing has changed. The record is one that the
// key has to be allowed: policies may limit names and types.
func (r route53) changes(ctx context.Context, id, zone string) error {
	absent := record{Name: "_acme-challenge." + zone + ".", Type: "TXT", TTL: 60, Values: []string{`"homelab-` + rand.Text() + `"`}}
	if r.records {
		absent = record{Name: "homelab-" + strings.ToLower(rand.Text()) + "." + zone + ".", Type: "A", TTL: 60, Values: []string{"192.0.2.1"}}
	}
	body, err := xml.Marshal(changeBatch{Changes: []change{{"DELETE", absent}}})
	if err != nil {
		return err
	}
	err = r.ask(ctx, http.MethodPost, "/hostedzone/"+url.PathEscape(id)+"/rrset", body, nil)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Code == "InvalidChangeBatch" && strings.Contains(refused.Message, "is not permitted in zone"):
		return fmt.Errorf("it is not in the hosted zone %s: correct dns.zones or dns.route53.hostedZone", id)
	case errors.As(err, &refused) && refused.Code == "InvalidChangeBatch":
		return nil
	}
	return err
}

// refusal is an error of the API.
type refusal struct {
	Code, Message string
	what          string
}

func (r *refusal) Error() string {
	switch r.Code {
	case "InvalidClientTokenId":
		return "AWS knows no such access key: correct dns.route53.accessKey"
	case "SignatureDoesNotMatch":
		return "AWS has another secret for the access key: correct dns.route53.secretKey, or this machine's clock"
	case "AccessDenied":
		return fmt.Sprintf("AWS does not let the access key of dns.route53 do this: %s; allow it in the key's policy (docs/platform.md has one)", r.Message)
	case "NoSuchHostedZone":
		return "Route 53 has no such hosted zone: correct dns.route53.hostedZone"
	}
	return fmt.Sprintf("Route 53 refuses %s: %s (%s)", r.what, r.Message, r.Code)
}

func (r route53) ask(ctx context.Context, method, path string, body []byte, result any) error {
	req, err := http.NewRequestWithContext(ctx, method, r.api+"/2013-04-01"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.sign(req, body, time.Now())
	resp, text, err := do(req)
	switch {
	case err != nil:
		return err
	case resp.StatusCode == http.StatusOK && result == nil:
		return nil
	case resp.StatusCode == http.StatusOK:
		if err := xml.Unmarshal(text, result); err != nil {
			return fmt.Errorf("Route 53 answers something that is not its API: %w", err)
		}
		return nil
	}
	// One wrong change has the first form, several have the second. Source: aws-sdk-go-v2, service/route53/internal/customizations.
	var said struct {
		Error    refusal
		Messages []string `xml:"Messages>Message"`
		XMLName  xml.Name
	}
	bad := xml.Unmarshal(text, &said)
	if said.XMLName.Local == "InvalidChangeBatch" {
		said.Error = refusal{Code: "InvalidChangeBatch", Message: strings.Join(said.Messages, ", ")}
	}
	if resp.StatusCode >= http.StatusInternalServerError || strings.HasPrefix(said.Error.Code, "Throttling") {
		return fmt.Errorf("Route 53 answers %s: try again later", resp.Status)
	}
	if bad != nil || said.Error.Code == "" {
		return fmt.Errorf("Route 53 answers %s with something that is not its API", resp.Status)
	}
	said.Error.what = method + " " + req.URL.Path
	return &said.Error
}

// do sends a request and reads the answer.
func do(req *http.Request) (*http.Response, []byte, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: limit}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: limit}).Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp, text, err
}
