// Package firewall answers for firewalls. It checks their rules, sets and aliases, and
// filters nothing.
package firewall
