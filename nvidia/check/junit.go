package check

import (
	"encoding/xml"
	"io"
	"strings"
	"time"
)

type suite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Time     string     `xml:"timestamp,attr"`
	Cases    []testcase `xml:"testcase"`
}

type testcase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Failure *message `xml:"failure"`
	Skipped *message `xml:"skipped"`
	Out     string   `xml:"system-out,omitempty"`
}

type message struct {
	Text string `xml:"message,attr"`
}

// JUnit writes checks as one JUnit test suite: a test case for each, its class the node and GPU.
// A warning passes, with its text as output.
func JUnit(w io.Writer, name string, at time.Time, checks []Check) error {
	s := suite{Name: name, Tests: len(checks), Time: at.UTC().Format("2006-01-02T15:04:05")}
	for _, c := range checks {
		one := testcase{Class: clean(c.Subject()), Name: clean(c.Name)}
		switch c.Verdict {
		case Failed:
			one.Failure = &message{clean(c.Detail)}
			s.Failures++
		case Skipped:
			one.Skipped = &message{clean(c.Detail)}
			s.Skipped++
		default:
			one.Out = clean(strings.TrimPrefix(string(c.Verdict)+": "+c.Detail, "passed: "))
		}
		s.Cases = append(s.Cases, one)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// clean leaves out characters that XML does not have.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
