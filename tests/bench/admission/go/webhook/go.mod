module webhook

go 1.22
