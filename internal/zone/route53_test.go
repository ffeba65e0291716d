package zone

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/pages"
)

const (
	accessKey = "AKIDEXAMPLE"
	awsSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// TestSignature compares a signature with AWS' own: get-vanilla-query-order-key-case of aws-sig-v4-test-suite.
func TestSignature(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.amazonaws.com/?Param2=value2&Param1=value1", nil)
	require.NoError(t, err)
	signer{accessKey, awsSecret, "us-east-1", "service"}.sign(req, nil, time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	assert.Equal(t, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=host;x-amz-date, "+
		"Signature=b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", req.Header.Get("Authorization"))
}

// playedRoute53 answers like Route 53's API to a key that may do what allowed matches, by the API's names of actions. The account
// has home.example, twice.example twice, and vpc.example as a private zone; its list is two pages.
func playedRoute53(t *testing.T, allowed string) string {
	t.Helper()
	zone := func(id, name, private string) string {
		return "<HostedZone><Id>/hostedzone/" + id + "</Id><Name>" + name + ".</Name><Config><PrivateZone>" + private + "</PrivateZone></Config></HostedZone>"
	}
	ours, twice := zone("Z1HOME", "home.example", "false"), zone("Z2", "twice.example", "false")+zone("Z3", "twice.example", "false")
	private := zone("Z4", "home.example", "true") + zone("Z5", "vpc.example", "true")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		say := func(status int, code, message string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `<?xml version="1.0"?><ErrorResponse xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>`, code, message)
		}
		path := strings.TrimPrefix(r.URL.Path, "/2013-04-01")
		action := map[string]string{"GET /hostedzonesbyname": "ListHostedZonesByName", "GET /hostedzone": "ListHostedZones", "GET /hostedzone/Z1HOME/rrset": "ListResourceRecordSets", "POST /hostedzone/Z1HOME/rrset": "ChangeResourceRecordSets"}[r.Method+" "+path]
		at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		assert.NoError(t, err)
		want := r.Clone(t.Context())
		want.URL.Host = r.Host
		signer{accessKey, awsSecret, "us-east-1", "route53"}.sign(want, body, at)
		switch given := r.Header.Get("Authorization"); {
		case allowed == "down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case allowed == "throttled":
			say(http.StatusBadRequest, "Throttling", "Rate exceeded")
		case !strings.Contains(given, "Credential="+accessKey+"/"):
			say(http.StatusForbidden, "InvalidClientTokenId", "The security token included in the request is invalid.")
		case given != want.Header.Get("Authorization"):
			say(http.StatusForbidden, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
		case action == "":
			say(http.StatusNotFound, "NoSuchHostedZone", "No hosted zone found with ID: "+path)
		case !regexp.MustCompile("^(" + allowed + ")$").MatchString(action):
			say(http.StatusForbidden, "AccessDenied", "User: arn:aws:iam::123456789012:user/homelab is not authorized to perform: route53:"+action+" because no identity-based policy allows the action")
		case action == "ListHostedZonesByName":
			fmt.Fprint(w, "<ListHostedZonesByNameResponse><HostedZones>"+private+ours+twice+"</HostedZones></ListHostedZonesByNameResponse>")
		case action == "ListHostedZones" && r.URL.Query().Get("marker") == "":
			fmt.Fprint(w, "<ListHostedZonesResponse><HostedZones>"+private+twice+"</HostedZones><IsTruncated>true</IsTruncated><NextMarker>Z1HOME</NextMarker></ListHostedZonesResponse>")
		case action == "ListHostedZones":
			fmt.Fprint(w, "<ListHostedZonesResponse><HostedZones>"+ours+"</HostedZones><IsTruncated>false</IsTruncated></ListHostedZonesResponse>")
		case action == "ListResourceRecordSets":
			fmt.Fprint(w, "<ListResourceRecordSetsResponse></ListResourceRecordSetsResponse>")
		default:
			var batch changeBatch
			assert.NoError(t, xml.Unmarshal(body, &batch))
			of := batch.Changes[0]
			assert.Equal(t, "DELETE", of.Action, "the check would change the zone")
			if !strings.HasSuffix(of.ResourceRecordSet.Name, ".home.example.") {
				say(http.StatusBadRequest, "InvalidChangeBatch", "RRSet with DNS name "+of.ResourceRecordSet.Name+" is not permitted in zone home.example.")
				return
			}
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `<InvalidChangeBatch xmlns="https://route53.amazonaws.com/doc/2013-04-01/"><Messages><Message>Tried to delete resource record set [name='%s', type='%s'] but it was not found</Message></Messages></InvalidChangeBatch>`, of.ResourceRecordSet.Name, of.ResourceRecordSet.Type)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRoute53(t *testing.T) {
	const least, all = "ListHostedZonesByName|ChangeResourceRecordSets", ".*"
	said := map[string]string{}
	for name, c := range map[string]struct {
		key, secret, id, zone string
		allowed               string
		keeps                 spec.Switch // external-dns keeps records
		want                  string      // of the error; empty: none
	}{
		"the zone":                       {accessKey, awsSecret, "", "home.example", least, spec.Off, ""},
		"the zone by its ID":             {accessKey, awsSecret, "Z1HOME", "home.example", "ChangeResourceRecordSets", spec.Off, ""},
		"the zone with records":          {accessKey, awsSecret, "", "home.example", all, spec.On, ""},
		"a name in the zone":             {accessKey, awsSecret, "", "lab.home.example", all, spec.On, ""},
		"another zone":                   {accessKey, awsSecret, "", "work.example", all, spec.Off, "has no such zone: correct dns.zones"},
		"another zone's ID":              {accessKey, awsSecret, "Z1HOME", "work.example", all, spec.Off, "it is not in the hosted zone Z1HOME"},
		"an ID of nothing":               {accessKey, awsSecret, "Z9", "home.example", all, spec.Off, "no such hosted zone"},
		"an ID of nothing, with records": {accessKey, awsSecret, "Z9", "home.example", all, spec.On, "has no hosted zone Z9"},
		"a private zone":                 {accessKey, awsSecret, "", "vpc.example", all, spec.Off, "only as a private zone (Z5)"},
		"two zones of a name":            {accessKey, awsSecret, "", "twice.example", all, spec.Off, "2 public zones twice.example (Z2, Z3): write dns.route53.hostedZone"},
		"another key":                    {"AKIDOTHER", awsSecret, "", "home.example", all, spec.Off, "AWS knows no such access key"},
		"another secret":                 {accessKey, "other", "", "home.example", all, spec.Off, "another secret for the access key"},
		"may not find":                   {accessKey, awsSecret, "", "home.example", "ChangeResourceRecordSets", spec.Off, "route53:ListHostedZonesByName because"},
		"may not list":                   {accessKey, awsSecret, "Z1HOME", "home.example", least, spec.On, "external-dns could not see its own records: AWS does not let the access key"},
		"may not read":                   {accessKey, awsSecret, "", "home.example", least + "|ListHostedZones", spec.On, "route53:ListResourceRecordSets because"},
		"may not change":                 {accessKey, awsSecret, "", "home.example", "List.*", spec.Off, "route53:ChangeResourceRecordSets because"},
		"a service that is down":         {accessKey, awsSecret, "", "home.example", "down", spec.Off, "try again later"},
		"too many requests":              {accessKey, awsSecret, "", "home.example", "throttled", spec.Off, "try again later"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &spec.DNS{Zones: []string{c.zone}, Records: c.keeps, Route53: &spec.Route53{AccessKey: c.key, SecretKey: ref(t, c.secret), HostedZone: c.id, Region: "eu-central-1"}}
			err := checker{"", playedRoute53(t, c.allowed)}.check(t.Context(), d)
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			assert.ErrorContains(t, err, "zone "+c.zone)
			assert.NotContains(t, err.Error(), awsSecret)
			said[name] = err.Error()
		})
	}
	pages.Compare(t, "docs/platform.md", "route53", said["may not list"]+"\n"+said["two zones of a name"], *update)
	for region, want := range map[string]string{"eu-central-1": "https://route53.amazonaws.com us-east-1", "cn-north-1": "https://route53.amazonaws.com.cn cn-northwest-1", "us-gov-east-1": "https://route53.us-gov.amazonaws.com us-gov-west-1"} {
		r := newRoute53(&spec.Route53{Region: region}, "", "", false)
		assert.Equal(t, want, r.api+" "+r.region)
	}
}

// TestPolicy: the policy of docs/platform.md is enough, and the check misses each of its actions but GetChange, which it cannot ask.
func TestPolicy(t *testing.T) {
	blocks := pages.Page(t, "docs/platform.md")
	at := slices.IndexFunc(blocks, func(b pages.Block) bool { return b.Kind == "json" && strings.Contains(b.Text, "route53:") })
	require.GreaterOrEqual(t, at, 0)
	var actions []string
	for _, found := range regexp.MustCompile(`"route53:(\w+)"`).FindAllStringSubmatch(blocks[at].Text, -1) {
		actions = append(actions, found[1])
	}
	d := &spec.DNS{Zones: []string{"home.example"}, Records: spec.On, Route53: &spec.Route53{AccessKey: accessKey, SecretKey: ref(t, awsSecret)}}
	require.NoError(t, checker{"", playedRoute53(t, strings.Join(actions, "|"))}.check(t.Context(), d))
	for _, action := range actions {
		without := slices.DeleteFunc(slices.Clone(actions), func(a string) bool { return a == action })
		if err := (checker{"", playedRoute53(t, strings.Join(without, "|"))}).check(t.Context(), d); action != "GetChange" {
			assert.ErrorContains(t, err, "route53:"+action)
		}
	}
}
