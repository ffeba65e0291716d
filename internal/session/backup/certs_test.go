package backup

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/internal/session"
)

// A node's row is about the certificate that ends first, authorities aside; those with fewer days than asked are counted, and
// those that ended are told apart from the moment in which they did.
func TestCertTable(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	leaf := func(left time.Duration) cluster.Certificate {
		return cluster.Certificate{File: "a.crt", Until: now.Add(left)}
	}
	const day = 24 * time.Hour
	ca := cluster.Certificate{File: "ca.crt", Authority: true, Until: now.Add(day)}
	for _, x := range []struct {
		left         time.Duration
		days, remark string
	}{
		{30 * day, "30", ""}, {30*day - time.Second, "29", "ends soon"}, {time.Second, "0", "ends soon"},
		{-time.Second, "-1", "EXPIRED"}, {-day, "-1", "EXPIRED"}, {-day - time.Second, "-2", "EXPIRED"},
	} {
		node := cluster.Certificates{Node: "cp1", Role: "server", All: []cluster.Certificate{ca, leaf(x.left), leaf(100 * day)}}
		table, old, silent := certTable([]cluster.Certificates{node}, now, 30)
		assert.Equal(t, [][]string{{"cp1", "server", "a.crt", now.Add(x.left).Format(time.DateOnly), x.days, "2", x.remark}}, table.Rows)
		assert.Equal(t, []int{len(x.remark), 0}, []int{old * len(x.remark), silent}, x.left)
	}
	table, old, silent := certTable([]cluster.Certificates{{Node: "cp1", Err: errors.New("no answer")}, {Node: "wk1"}, {Node: "wk2", All: []cluster.Certificate{ca}}}, now, 400)
	assert.Equal(t, [][]string{
		{"cp1", "", "-", "-", "-", "-", "UNKNOWN: no answer"}, {"wk1", "", "-", "-", "-", "0", "K3s has not joined here"}, {"wk2", "", "-", "-", "-", "0", "K3s has not joined here"},
	}, table.Rows)
	assert.Equal(t, []int{0, 1}, []int{old, silent})
	for _, row := range table.Rows {
		assert.Len(t, row, len(table.Header))
	}
}

// One certificate that ends soon is enough for exit code 2, one node that does not answer for an error.
func TestCertsError(t *testing.T) {
	require.NoError(t, certsError(0, 0, 90))
	require.EqualError(t, certsError(0, 1, 90), "1 node did not answer")
	for _, silent := range []int{0, 1} {
		var pending *session.Error
		require.ErrorAs(t, certsError(1, silent, 90), &pending)
		assert.Equal(t, 2, pending.Code)
		assert.ErrorContains(t, pending, "on 1 node a certificate ends within 90 days")
	}
}
