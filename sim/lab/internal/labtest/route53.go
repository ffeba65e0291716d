package labtest

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/cps-gpu/homelab/sim/lab/zones"
)

// Route53 plays Route 53's API for one access key and one public zone, whose records it puts into a name server; the account has a
// private zone of the same name too. It has the requests of cert-manager, external-dns and homelab, with the forms of
// docs.aws.amazon.com/Route53/latest/APIReference, and checks signatures.
type Route53 struct {
	Address, AccessKey, Secret string

	names   NameServer
	zone    string
	limited atomic.Bool
	refused atomic.Int32
	lock    sync.Mutex
	sets    []zones.RecordSet
}

const (
	hostedZone  = "Z111111QQQQQQQ"
	privateZone = "Z222222VVVVVVV"
	awsDocument = "https://route53.amazonaws.com/doc/2013-04-01/"
)

// NewRoute53 starts the API for a zone of a name server.
func NewRoute53(t *testing.T, names NameServer, zone string) *Route53 {
	t.Helper()
	a := &Route53{AccessKey: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", names: names, zone: zone}
	api := http.NewServeMux()
	api.HandleFunc("GET /2013-04-01/hostedzonesbyname", a.byName)
	api.HandleFunc("GET /2013-04-01/hostedzone", a.hostedZones)
	api.HandleFunc("GET /2013-04-01/hostedzone/{zone}/rrset", a.list)
	api.HandleFunc("POST /2013-04-01/hostedzone/{zone}/rrset", func(w http.ResponseWriter, r *http.Request) {
		var batch zones.ChangeRequest
		if err := xml.NewDecoder(r.Body).Decode(&batch); err != nil || len(batch.Changes) == 0 {
			a.fail(w, http.StatusBadRequest, "MalformedInput", fmt.Sprint(err))
			return
		}
		a.change(t, w, batch.Changes)
	})
	api.HandleFunc("GET /2013-04-01/change/{id}", func(w http.ResponseWriter, _ *http.Request) { a.changed(w, "GetChangeResponse", "INSYNC") })
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		signature, err := zones.Signature(r, body, a.Secret)
		switch of, given := strings.Split(r.URL.Path, "/"), r.Header.Get("Authorization"); {
		case a.limited.Load():
			a.refused.Add(1)
			a.fail(w, http.StatusBadRequest, "Throttling", "Rate exceeded")
		case err != nil:
			a.fail(w, http.StatusForbidden, "IncompleteSignature", err.Error())
		case !strings.Contains(given, "Credential="+a.AccessKey+"/"):
			a.fail(w, http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
		case !strings.Contains(given, "/us-east-1/route53/aws4_request"):
			a.fail(w, http.StatusForbidden, "SignatureDoesNotMatch", "Credential should be scoped to a valid region.")
		case !strings.HasSuffix(given, "Signature="+signature):
			a.fail(w, http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.")
		case len(of) > 3 && of[2] == "hostedzone" && of[3] != hostedZone && of[3] != privateZone:
			a.fail(w, http.StatusNotFound, "NoSuchHostedZone", "No hosted zone found with ID: "+of[3])
		default:
			api.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	a.Address = s.URL
	return a
}

// Limit makes the API refuse all requests for their number, or no longer.
func (a *Route53) Limit(on bool) { a.limited.Store(on) }

// Refused is how many requests were refused for their number.
func (a *Route53) Refused() int { return int(a.refused.Load()) }

func (a *Route53) fail(w http.ResponseWriter, status int, code, message string) {
	type said struct{ Type, Code, Message string }
	write(w, status, struct {
		XMLName   xml.Name `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ErrorResponse"`
		Error     said
		RequestID string `xml:"RequestId"`
	}{Error: said{"Sender", code, message}, RequestID: "b25f48e8-84fd-11e6-80d9-574e0c4664cb"})
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "text/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(answer)
}

func (a *Route53) all() []zones.HostedZone {
	return []zones.HostedZone{{ID: "/hostedzone/" + privateZone, Name: a.zone + ".", Private: true}, {ID: "/hostedzone/" + hostedZone, Name: a.zone + "."}}
}

// byName lists zones from a name on, in the order of names.
func (a *Route53) byName(w http.ResponseWriter, r *http.Request) {
	list := a.all()
	if name := r.URL.Query().Get("dnsname"); name != "" && strings.TrimSuffix(name, ".") > a.zone {
		list = nil
	}
	write(w, http.StatusOK, struct {
		XMLName     xml.Name           `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ListHostedZonesByNameResponse"`
		HostedZones []zones.HostedZone `xml:"HostedZones>HostedZone"`
		DNSName     string
		IsTruncated bool
		MaxItems    int
	}{HostedZones: list, DNSName: r.URL.Query().Get("dnsname"), MaxItems: 100})
}

// hostedZones lists zones, one a page.
func (a *Route53) hostedZones(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		XMLName     xml.Name           `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ListHostedZonesResponse"`
		HostedZones []zones.HostedZone `xml:"HostedZones>HostedZone"`
		Marker      string
		IsTruncated bool
		NextMarker  string `xml:",omitempty"`
		MaxItems    int
	}{HostedZones: a.all()[:1], IsTruncated: true, NextMarker: hostedZone, MaxItems: 1}
	if r.URL.Query().Get("marker") == hostedZone {
		answer.HostedZones, answer.IsTruncated, answer.NextMarker = a.all()[1:], false, ""
	}
	write(w, http.StatusOK, answer)
}

func (a *Route53) list(w http.ResponseWriter, _ *http.Request) {
	a.lock.Lock()
	defer a.lock.Unlock()
	write(w, http.StatusOK, struct {
		XMLName     xml.Name          `xml:"https://route53.amazonaws.com/doc/2013-04-01/ ListResourceRecordSetsResponse"`
		Sets        []zones.RecordSet `xml:"ResourceRecordSets>ResourceRecordSet"`
		IsTruncated bool
		MaxItems    int
	}{Sets: a.sets, MaxItems: 300})
}

func (a *Route53) changed(w http.ResponseWriter, name, status string) {
	w.Header().Set("Content-Type", "text/xml")
	fmt.Fprintf(w, `%s<%s xmlns=%q><ChangeInfo><Id>/change/C2682N5HXP0BZ4</Id><Status>%s</Status><SubmittedAt>2026-01-01T00:00:00Z</SubmittedAt></ChangeInfo></%s>`, xml.Header, name, awsDocument, status, name)
}

// change does all changes, one after the other, or none.
func (a *Route53) change(t *testing.T, w http.ResponseWriter, changes []zones.Change) {
	a.lock.Lock()
	defer a.lock.Unlock()
	next := slices.Clone(a.sets)
	var remove, insert []dns.RR
	for _, c := range changes {
		s := c.Set
		s.Name = dns.Fqdn(strings.ToLower(s.Name))
		at := fmt.Sprintf("[name='%s', type='%s']", s.Name, s.Type)
		i := slices.IndexFunc(next, func(o zones.RecordSet) bool {
			return o.Name == s.Name && o.Type == s.Type && o.SetIdentifier == s.SetIdentifier
		})
		why := ""
		switch {
		case !dns.IsSubDomain(a.zone+".", s.Name):
			why = fmt.Sprintf("RRSet with DNS name %s is not permitted in zone %s.", s.Name, a.zone)
		case c.Action == "CREATE" && i >= 0:
			why = "Tried to create resource record set " + at + " but it already exists"
		case c.Action == "DELETE" && i < 0:
			why = "Tried to delete resource record set " + at + " but it was not found"
		case c.Action == "DELETE" && (next[i].TTL != s.TTL || !slices.Equal(slices.Sorted(slices.Values(next[i].Values)), slices.Sorted(slices.Values(s.Values)))):
			why = "Tried to delete resource record set " + at + " but the values provided do not match the current values"
		}
		if why != "" {
			write(w, http.StatusBadRequest, struct {
				XMLName  xml.Name `xml:"https://route53.amazonaws.com/doc/2013-04-01/ InvalidChangeBatch"`
				Messages []string `xml:"Messages>Message"`
			}{Messages: []string{why}})
			return
		}
		if i >= 0 {
			remove = append(remove, recordsOf(t, next[i])...)
			next = slices.Delete(next, i, i+1)
		}
		if c.Action != "DELETE" {
			next, insert = append(next, s), append(insert, recordsOf(t, s)...)
		}
	}
	a.names.update(t, a.zone, remove, insert)
	a.sets = next
	a.changed(w, "ChangeResourceRecordSetsResponse", "PENDING")
}

func recordsOf(t *testing.T, s zones.RecordSet) (out []dns.RR) {
	t.Helper()
	for _, v := range s.Values {
		out = append(out, record(t, s.Name, s.Type, v))
	}
	return out
}
