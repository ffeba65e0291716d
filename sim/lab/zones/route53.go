package zones

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// Route53 is a client of Route 53's API. It sends the requests of cert-manager (pkg/issuer/acme/dns/route53/route53.go) and of
// external-dns (provider/aws/aws.go).
type Route53 struct {
	Address, AccessKey, Secret string
	HostedZone                 string // its ID; empty: it is looked up
}

// Route53Of has the address that AWS' own client takes from the environment (aws-sdk-go-v2, config/env_config.go).
func Route53Of(accessKey, secret, hostedZone string) Route53 {
	return Route53{strings.TrimSuffix(os.Getenv("AWS_ENDPOINT_URL_ROUTE_53"), "/"), accessKey, secret, hostedZone}
}

// Elements of the API: docs.aws.amazon.com/Route53/latest/APIReference
type (
	// HostedZone is a zone.
	HostedZone struct {
		ID      string `xml:"Id"`
		Name    string
		Private bool `xml:"Config>PrivateZone"`
	}
	// RecordSet is the values of one name and type.
	RecordSet struct {
		Name, Type       string
		SetIdentifier    string   `xml:",omitempty"`
		MultiValueAnswer bool     `xml:",omitempty"`
		TTL              int      `xml:",omitempty"`
		Values           []string `xml:"ResourceRecords>ResourceRecord>Value"`
	}
	// Change creates, deletes or upserts a record set.
	Change struct {
		Action string
		Set    RecordSet `xml:"ResourceRecordSet"`
	}
	// ChangeRequest is a batch, of which all or nothing is done.
	ChangeRequest struct {
		XMLName xml.Name `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ChangeResourceRecordSetsRequest"`
		Changes []Change `xml:"ChangeBatch>Changes>Change"`
	}
)

// awsError is what the API refused.
type awsError struct{ Code, Message string }

func (e *awsError) Error() string { return "api error " + e.Code + ": " + e.Message }

func (r Route53) ask(ctx context.Context, method, path string, body, result any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = xml.Marshal(body); err != nil {
			return fmt.Errorf("Route 53: %w", err) //nolint:staticcheck // a name
		}
	}
	status, said, err := exchange(ctx, method, r.Address+"/2013-04-01"+path, text, func(req *http.Request) { r.sign(req, text) })
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		var refused struct {
			Error    awsError
			Messages []string `xml:"Messages>Message"`
		}
		if err := xml.Unmarshal(said, &refused); err != nil {
			return fmt.Errorf("Route 53 answers %d: %w", status, err) //nolint:staticcheck // a name
		}
		return &awsError{cmp.Or(refused.Error.Code, "InvalidChangeBatch"), cmp.Or(refused.Error.Message, strings.Join(refused.Messages, ", "))}
	}
	if result == nil {
		return nil
	}
	if err := xml.Unmarshal(said, result); err != nil {
		return fmt.Errorf("Route 53: %w", err) //nolint:staticcheck // a name
	}
	return nil
}

func (r Route53) sign(req *http.Request, body []byte) {
	at := time.Now().UTC().Format("20060102T150405Z")
	req.Header.Set("X-Amz-Date", at)
	req.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s/us-east-1/route53/aws4_request, SignedHeaders=host;x-amz-date", r.AccessKey, at[:8]))
	if signature, err := Signature(req, body, r.Secret); err == nil {
		req.Header.Set("Authorization", req.Header.Get("Authorization")+", Signature="+signature)
	}
}

// listed finds a public zone as external-dns does, in the list of all.
func (r Route53) listed(ctx context.Context, zone string) (string, error) {
	for path, more := "/hostedzone", true; more; {
		var answer struct {
			HostedZones []HostedZone `xml:"HostedZones>HostedZone"`
			IsTruncated bool
			NextMarker  string
		}
		if err := r.ask(ctx, http.MethodGet, path, nil, &answer); err != nil {
			return "", fmt.Errorf("failed to list hosted zones: %w", err)
		}
		for _, z := range answer.HostedZones {
			if id := strings.TrimPrefix(z.ID, "/hostedzone/"); z.Name == dns.Fqdn(zone) && (id == r.HostedZone || r.HostedZone == "" && !z.Private) {
				return id, nil
			}
		}
		path, more = "/hostedzone?marker="+answer.NextMarker, answer.IsTruncated
	}
	return "", nil
}

func (r Route53) sets(ctx context.Context, id string) (out []RecordSet, err error) {
	const most = "/rrset?maxitems=300"
	for path, more := most, true; more; {
		var answer struct {
			Sets                           []RecordSet `xml:"ResourceRecordSets>ResourceRecordSet"`
			IsTruncated                    bool
			NextRecordName, NextRecordType string
		}
		if err := r.ask(ctx, http.MethodGet, "/hostedzone/"+id+path, nil, &answer); err != nil {
			return nil, fmt.Errorf("failed to list resource records sets for zone %s: %w", id, err)
		}
		out, more = append(out, answer.Sets...), answer.IsTruncated
		path = most + "&name=" + answer.NextRecordName + "&type=" + answer.NextRecordType
	}
	return out, nil
}

// Records are those of a zone; none if the key does not see it.
func (r Route53) Records(ctx context.Context, zone string) ([]dns.RR, error) {
	id, err := r.listed(ctx, zone)
	if err != nil || id == "" {
		return nil, err
	}
	sets, err := r.sets(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []dns.RR
	for _, s := range sets {
		for _, v := range s.Values {
			rr, err := parsed(s.Name, s.Type, v)
			if err != nil {
				return nil, err
			}
			out = append(out, rr)
		}
	}
	return out, nil
}

// Update changes record sets in one batch: what is removed and inserted again is upserted.
func (r Route53) Update(ctx context.Context, zone string, remove, insert []dns.RR) error {
	id, err := r.listed(ctx, zone)
	if err != nil || id == "" {
		return err
	}
	old, batch := setsOf(remove), ChangeRequest{}
	next := setsOf(insert)
	same := func(in []RecordSet, s RecordSet) bool {
		return slices.ContainsFunc(in, func(o RecordSet) bool { return o.Name == s.Name && o.Type == s.Type })
	}
	for _, s := range old {
		if !same(next, s) {
			batch.Changes = append(batch.Changes, Change{"DELETE", s})
		}
	}
	for _, s := range next {
		action := "CREATE"
		if same(old, s) {
			action = "UPSERT"
		}
		batch.Changes = append(batch.Changes, Change{action, s})
	}
	return r.ask(ctx, http.MethodPost, "/hostedzone/"+id+"/rrset", batch, nil)
}

// setsOf groups records by name and type.
func setsOf(records []dns.RR) (out []RecordSet) {
	const ttl = 300 // external-dns' default
	for _, rr := range records {
		s := RecordSet{Name: rr.Header().Name, Type: dns.TypeToString[rr.Header().Rrtype], TTL: ttl}
		i := slices.IndexFunc(out, func(o RecordSet) bool { return o.Name == s.Name && o.Type == s.Type })
		if i < 0 {
			out, i = append(out, s), len(out)
		}
		out[i].Values = append(out[i].Values, value(rr))
	}
	return out
}

// Present shows the record of a challenge, and waits until all name servers have it.
func (r Route53) Present(ctx context.Context, zone string, record *dns.TXT) error {
	return r.challenge(ctx, "UPSERT", zone, record)
}

// CleanUp removes the record of a challenge. That it is not there is no error.
func (r Route53) CleanUp(ctx context.Context, zone string, record *dns.TXT) error {
	err := r.challenge(ctx, "DELETE", zone, record)
	if refused := (*awsError)(nil); errors.As(err, &refused) && refused.Code == "InvalidChangeBatch" {
		return nil
	}
	return err
}

func (r Route53) challenge(ctx context.Context, action, zone string, record *dns.TXT) error {
	id := r.HostedZone
	if id == "" {
		var answer struct {
			HostedZones []HostedZone `xml:"HostedZones>HostedZone"`
		}
		if err := r.ask(ctx, http.MethodGet, "/hostedzonesbyname?dnsname="+zone, nil, &answer); err != nil {
			return fmt.Errorf("failed to determine Route 53 hosted zone ID: %w", err)
		}
		for _, z := range answer.HostedZones {
			if !z.Private && z.Name == dns.Fqdn(zone) {
				id = strings.TrimPrefix(z.ID, "/hostedzone/")
			}
		}
		if id == "" {
			return fmt.Errorf("failed to determine Route 53 hosted zone ID: zone %s not found in Route 53 for domain %s", zone, record.Hdr.Name)
		}
	}
	text := strconv.Quote(record.Txt[0])
	set := RecordSet{Name: record.Hdr.Name, Type: "TXT", SetIdentifier: text, MultiValueAnswer: true, TTL: 10, Values: []string{text}}
	var answer struct {
		ID string `xml:"ChangeInfo>Id"`
	}
	if err := r.ask(ctx, http.MethodPost, "/hostedzone/"+id+"/rrset", ChangeRequest{Changes: []Change{{action, set}}}, &answer); err != nil {
		return fmt.Errorf("failed to change Route 53 record set: %w", err)
	}
	return r.ask(ctx, http.MethodGet, "/change/"+strings.TrimPrefix(answer.ID, "/change/"), nil, nil)
}
