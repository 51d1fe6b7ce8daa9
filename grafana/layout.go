package grafana

import (
	"math"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// gridWidth is how wide Grafana's grid is.
const gridWidth = 24

// row is a heading and the panels below it.
type row struct {
	title  string
	panels []dashboard.Panel
}

// layout numbers the panels and places each under its row, as high and then as far left as it fits.
func layout(rows []row) []dashboard.PanelOrRowPanel {
	var all []dashboard.PanelOrRowPanel
	var id, y uint32
	for _, r := range rows {
		id++
		all = append(all, dashboard.PanelOrRowPanel{RowPanel: &dashboard.RowPanel{
			Type: "row", Title: &r.title, Id: id, GridPos: &dashboard.GridPos{Y: y, W: gridWidth, H: 1}, Panels: []dashboard.Panel{},
		}})
		var filled [gridWidth]uint32 // down to where each column is
		for x := range filled {
			filled[x] = y + 1
		}
		for _, p := range r.panels {
			id++
			p.Id = new(id)
			place(p.GridPos, &filled)
			all = append(all, dashboard.PanelOrRowPanel{Panel: &p})
		}
		y = slices.Max(filled[:])
	}
	return all
}

// place finds the place of a panel and fills it.
func place(pos *dashboard.GridPos, filled *[gridWidth]uint32) {
	pos.Y = math.MaxUint32
	for x := uint32(0); x+pos.W <= gridWidth; x++ {
		if y := slices.Max(filled[x : x+pos.W]); y < pos.Y {
			pos.X, pos.Y = x, y
		}
	}
	for x := pos.X; x < pos.X+pos.W; x++ {
		filled[x] = pos.Y + pos.H
	}
}
