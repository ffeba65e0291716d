// Package consoles opens consoles of machines and nodes, and speaks behind them.
package consoles
