// Package addon has the services that every such cluster wants, each a [chart.Part].
package addon
