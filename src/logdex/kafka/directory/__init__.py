"""Which directory this is, what lies in it, who has it open."""
