"""The ten offices that the tasks take place in, each with people, events and files of its own."""

from __future__ import annotations

from typing import NamedTuple


class Conversion(NamedTuple):
    value: int | float
    unit: str
    into: str
    instead: str
    """Another unit that the value could have been converted into."""
    path: str
    """Where the result is saved."""


class Planned(NamedTuple):
    """Something with a title that happens at a time."""

    title: str
    date: str
    time: str


class Note(NamedTuple):
    path: str
    content: str


class Office(NamedTuple):
    """The entities of one office.

    Attributes:
        people: full names with their teams; the first two share the first team, the next
            two the second.
        agenda: four events; the first and the second are alone on their dates.
        notes: two files; `subject` fits the first.
        system_file: the read-only file.
        invitation: an event to create with the first person.
        summary_path: where the agenda is written.
        workshop: an event to create with the first team.
        moved_to: the new date and time of the second event.
        reminder, memo, message: what the single-call tasks and the last step of a move set,
            write and send.
    """

    domain: str
    people: tuple[tuple[str, str], ...]
    agenda: tuple[Planned, ...]
    notes: tuple[Note, ...]
    subject: str
    system_file: str
    invitation: Planned
    summary_path: str
    conversion: Conversion
    workshop: Planned
    moved_to: tuple[str, str]
    follow_up: str
    reminder: Planned
    memo: Note
    message: tuple[str, str]


OFFICES: tuple[Office, ...] = (
    Office(
        domain="nordex.example",
        people=(
            ("Ana Ruiz", "Design"),
            ("Tom Becker", "Design"),
            ("Priya Nair", "Finance"),
            ("Owen Clarke", "Finance"),
            ("Mia Holt", "Legal"),
        ),
        agenda=(
            Planned("Budget review", "2026-09-07", "10:00"),
            Planned("Client lunch", "2026-09-09", "12:30"),
            Planned("Press call", "2026-09-10", "15:00"),
            Planned("Logo vote", "2026-09-10", "16:15"),
        ),
        notes=(
            Note("notes/launch.txt", "Doors open at nine."),
            Note("notes/parking.txt", "Use the north gate."),
        ),
        subject="Launch notes",
        system_file="system/settings.cfg",
        invitation=Planned("Pricing talk", "2026-09-14", "09:30"),
        summary_path="notes/monday.txt",
        conversion=Conversion(12, "km", "miles", "feet", "travel/distance.txt"),
        workshop=Planned("Sketch session", "2026-09-15", "14:00"),
        moved_to=("2026-09-16", "13:00"),
        follow_up="Change the table booking",
        reminder=Planned("Renew the badge", "2026-09-18", "08:30"),
        memo=Note("drafts/slogan.txt", "Built to last"),
        message=("Printer", "The new printer has arrived."),
    ),
    Office(
        domain="calder.example",
        people=(
            ("Lena Fischer", "Sales"),
            ("Raj Patel", "Sales"),
            ("Nora Quinn", "Support"),
            ("Iker Sanz", "Support"),
            ("Ruth Adler", "Payroll"),
        ),
        agenda=(
            Planned("Quarter kickoff", "2026-10-05", "09:00"),
            Planned("Vendor demo", "2026-10-06", "11:00"),
            Planned("Ticket triage", "2026-10-08", "10:30"),
            Planned("Choir practice", "2026-10-08", "17:00"),
        ),
        notes=(
            Note("docs/refunds.txt", "Refunds take five days."),
            Note("docs/greeting.txt", "Always say hello first."),
        ),
        subject="Refund rule",
        system_file="system/audit.log",
        invitation=Planned("Forecast check", "2026-10-12", "11:30"),
        summary_path="docs/october.txt",
        conversion=Conversion(40, "pounds", "kg", "grams", "docs/parcel.txt"),
        workshop=Planned("Pitch rehearsal", "2026-10-13", "15:30"),
        moved_to=("2026-10-14", "16:00"),
        follow_up="Reserve the projector",
        reminder=Planned("Call the courier", "2026-10-16", "09:15"),
        memo=Note("docs/motto.txt", "Answer within a day"),
        message=("Headsets", "Two headsets are left."),
    ),
    Office(
        domain="sunmere.example",
        people=(
            ("Hugo Lindqvist", "Research"),
            ("Amara Obi", "Research"),
            ("Felix Braun", "Security"),
            ("Yuki Mori", "Security"),
            ("Clara Dunne", "Library"),
        ),
        agenda=(
            Planned("Journal club", "2026-11-02", "13:00"),
            Planned("Fire drill", "2026-11-04", "10:15"),
            Planned("Grant panel", "2026-11-05", "14:30"),
            Planned("Lab tour", "2026-11-05", "16:00"),
        ),
        notes=(
            Note("lab/samples.txt", "Store them below zero."),
            Note("lab/keys.txt", "The spare is in drawer two."),
        ),
        subject="Sample storage",
        system_file="system/access.conf",
        invitation=Planned("Poster critique", "2026-11-09", "15:15"),
        summary_path="lab/week.txt",
        conversion=Conversion(3, "gallons", "liters", "pints", "lab/solvent.txt"),
        workshop=Planned("Method swap", "2026-11-10", "10:00"),
        moved_to=("2026-11-11", "11:45"),
        follow_up="Print the evacuation map",
        reminder=Planned("Calibrate the scale", "2026-11-13", "07:45"),
        memo=Note("lab/warning.txt", "Wear gloves"),
        message=("Freezer", "The freezer was repaired."),
    ),
    Office(
        domain="pelham.example",
        people=(
            ("Sofia Marek", "Marketing"),
            ("Dylan Shaw", "Marketing"),
            ("Greta Vogel", "Logistics"),
            ("Omar Haddad", "Logistics"),
            ("Jun Takeda", "Catering"),
        ),
        agenda=(
            Planned("Campaign recap", "2026-12-01", "09:45"),
            Planned("Truck inspection", "2026-12-02", "08:00"),
            Planned("Photo shoot", "2026-12-03", "13:30"),
            Planned("Menu tasting", "2026-12-03", "12:00"),
        ),
        notes=(
            Note("plans/banner.txt", "Blue text on white."),
            Note("plans/route.txt", "Avoid the bridge on Friday."),
        ),
        subject="Banner colours",
        system_file="system/quota.ini",
        invitation=Planned("Survey debrief", "2026-12-07", "10:45"),
        summary_path="plans/december.txt",
        conversion=Conversion(6, "feet", "meters", "cm", "plans/height.txt"),
        workshop=Planned("Headline clinic", "2026-12-08", "16:30"),
        moved_to=("2026-12-09", "07:30"),
        follow_up="Tell the drivers",
        reminder=Planned("Order more flyers", "2026-12-11", "14:45"),
        memo=Note("plans/caption.txt", "Winter starts here"),
        message=("Pallets", "Nine pallets were delivered."),
    ),
    Office(
        domain="arbour.example",
        people=(
            ("Ines Costa", "Editorial"),
            ("Paul Renner", "Editorial"),
            ("Maya Levin", "Archive"),
            ("Stefan Popov", "Archive"),
            ("Edith Crane", "Rights"),
        ),
        agenda=(
            Planned("Cover meeting", "2027-01-11", "11:15"),
            Planned("Author reading", "2027-01-12", "18:00"),
            Planned("Proof deadline", "2027-01-14", "12:15"),
            Planned("Shelf inventory", "2027-01-14", "09:00"),
        ),
        notes=(
            Note("books/style.txt", "One space after a full stop."),
            Note("books/boxes.txt", "Label both sides."),
        ),
        subject="Style reminder",
        system_file="system/backup.cron",
        invitation=Planned("Contract reading", "2027-01-18", "14:15"),
        summary_path="books/january.txt",
        conversion=Conversion(9, "inches", "cm", "feet", "books/format.txt"),
        workshop=Planned("Plot surgery", "2027-01-19", "13:45"),
        moved_to=("2027-01-20", "17:30"),
        follow_up="Put out more chairs",
        reminder=Planned("Return the proofs", "2027-01-22", "10:30"),
        memo=Note("books/dedication.txt", "For my sister"),
        message=("Galleys", "Six galleys are on your desk."),
    ),
    Office(
        domain="tidewell.example",
        people=(
            ("Marco Bianchi", "Engineering"),
            ("Zoe Hartley", "Engineering"),
            ("Anton Weiss", "Purchasing"),
            ("Leila Karimi", "Purchasing"),
            ("Bram Visser", "Safety"),
        ),
        agenda=(
            Planned("Pump test", "2027-02-01", "08:45"),
            Planned("Supplier visit", "2027-02-02", "14:00"),
            Planned("Crane training", "2027-02-04", "11:00"),
            Planned("Valve audit", "2027-02-04", "15:45"),
        ),
        notes=(
            Note("site/pressure.txt", "Keep it under six bar."),
            Note("site/helmets.txt", "Helmets hang by the door."),
        ),
        subject="Pressure limit",
        system_file="system/network.conf",
        invitation=Planned("Turbine briefing", "2027-02-08", "16:45"),
        summary_path="site/february.txt",
        conversion=Conversion(250, "grams", "ounces", "pounds", "site/bolts.txt"),
        workshop=Planned("Welding refresher", "2027-02-09", "09:15"),
        moved_to=("2027-02-10", "10:10"),
        follow_up="Inform the gatekeeper",
        reminder=Planned("Check the gauge", "2027-02-12", "13:15"),
        memo=Note("site/sign.txt", "No entry beyond this point"),
        message=("Gaskets", "The gaskets are too small."),
    ),
    Office(
        domain="quillon.example",
        people=(
            ("Eva Novak", "Admissions"),
            ("Sam Whitaker", "Admissions"),
            ("Tara Singh", "Housing"),
            ("Luis Ortega", "Housing"),
            ("Agnes Bloom", "Registry"),
        ),
        agenda=(
            Planned("Open day", "2027-03-01", "10:20"),
            Planned("Roof repair", "2027-03-03", "07:15"),
            Planned("Essay grading", "2027-03-04", "13:10"),
            Planned("Piano recital", "2027-03-04", "19:00"),
        ),
        notes=(
            Note("campus/tours.txt", "Tours begin at the fountain."),
            Note("campus/laundry.txt", "Machines take coins only."),
        ),
        subject="Where tours begin",
        system_file="system/grades.lock",
        invitation=Planned("Scholarship hearing", "2027-03-08", "11:50"),
        summary_path="campus/march.txt",
        conversion=Conversion(150, "minutes", "hours", "days", "campus/exam.txt"),
        workshop=Planned("Interview practice", "2027-03-09", "15:20"),
        moved_to=("2027-03-10", "08:10"),
        follow_up="Warn the top floor",
        reminder=Planned("Hand in the roster", "2027-03-12", "16:20"),
        memo=Note("campus/welcome.txt", "Glad you are here"),
        message=("Mattresses", "Ten mattresses were replaced."),
    ),
    Office(
        domain="harlow.example",
        people=(
            ("Petra Jansen", "Nursing"),
            ("Colin Frost", "Nursing"),
            ("Dina Awad", "Pharmacy"),
            ("Viktor Sokol", "Pharmacy"),
            ("Hazel Byrne", "Reception"),
        ),
        agenda=(
            Planned("Ward round", "2027-04-05", "07:30"),
            Planned("Stock count", "2027-04-07", "15:10"),
            Planned("Hygiene course", "2027-04-08", "09:20"),
            Planned("Donor evening", "2027-04-08", "18:30"),
        ),
        notes=(
            Note("clinic/visits.txt", "Visitors leave by eight."),
            Note("clinic/fridge.txt", "Vaccines go on top."),
        ),
        subject="Visiting hours",
        system_file="system/patients.db",
        invitation=Planned("Roster planning", "2027-04-12", "13:40"),
        summary_path="clinic/april.txt",
        conversion=Conversion(5, "liters", "gallons", "pints", "clinic/saline.txt"),
        workshop=Planned("Bandage drill", "2027-04-13", "10:50"),
        moved_to=("2027-04-14", "14:40"),
        follow_up="Unlock the cabinet",
        reminder=Planned("Replace the filter", "2027-04-16", "06:45"),
        memo=Note("clinic/notice.txt", "Please ring the bell"),
        message=("Wheelchair", "The wheelchair has a flat tyre."),
    ),
    Office(
        domain="ostrava.example",
        people=(
            ("Nils Berg", "Events"),
            ("Farah Aziz", "Events"),
            ("Oscar Lund", "Transport"),
            ("Wanda Kowal", "Transport"),
            ("Theo Marsh", "Tickets"),
        ),
        agenda=(
            Planned("Stage setup", "2027-05-03", "12:45"),
            Planned("Band audition", "2027-05-04", "17:15"),
            Planned("Bus timetable", "2027-05-06", "08:20"),
            Planned("Volunteer dinner", "2027-05-06", "19:30"),
        ),
        notes=(
            Note("festival/gates.txt", "Gate four stays closed."),
            Note("festival/shuttle.txt", "Every twenty minutes."),
        ),
        subject="Closed gate",
        system_file="system/vendors.key",
        invitation=Planned("Lighting walk", "2027-05-10", "20:00"),
        summary_path="festival/may.txt",
        conversion=Conversion(2.5, "miles", "km", "meters", "festival/parade.txt"),
        workshop=Planned("Crowd rehearsal", "2027-05-11", "11:20"),
        moved_to=("2027-05-12", "18:45"),
        follow_up="Phone the sound crew",
        reminder=Planned("Collect the wristbands", "2027-05-14", "12:10"),
        memo=Note("festival/rules.txt", "Leave glass at home"),
        message=("Tents", "Three tents need poles."),
    ),
    Office(
        domain="velmont.example",
        people=(
            ("Gina Rossi", "Training"),
            ("Mateo Silva", "Training"),
            ("Karin Dahl", "Facilities"),
            ("Ravi Menon", "Facilities"),
            ("Ursula Beck", "Quality"),
        ),
        agenda=(
            Planned("Safety quiz", "2027-06-07", "09:50"),
            Planned("Window cleaning", "2027-06-08", "13:20"),
            Planned("Mentor circle", "2027-06-10", "10:40"),
            Planned("Garden party", "2027-06-10", "16:50"),
        ),
        notes=(
            Note("hall/heating.txt", "Turn it off at six."),
            Note("hall/rooms.txt", "Room nine has no screen."),
        ),
        subject="Heating",
        system_file="system/license.pem",
        invitation=Planned("Feedback hour", "2027-06-14", "12:20"),
        summary_path="hall/june.txt",
        conversion=Conversion(72, "hours", "days", "minutes", "hall/rental.txt"),
        workshop=Planned("Trainer exchange", "2027-06-15", "14:50"),
        moved_to=("2027-06-16", "15:40"),
        follow_up="Clear the sills",
        reminder=Planned("Water the plants", "2027-06-18", "17:45"),
        memo=Note("hall/plaque.txt", "Opened in spring"),
        message=("Lamps", "Four lamps flicker."),
    ),
)
