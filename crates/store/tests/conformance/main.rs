//! One suite for every store. A case is a function over a [`World`]; the list below is all there is, and each store
//! runs the whole of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a case that can't go on fails"
)]

mod decisions;
mod engine;
mod leases;
mod patterns;
mod reads;
mod reports;
mod sent;
mod starts;
mod triage;
mod workers;
mod world;

use world::World;

/// Every case there is. A store that runs the suite hands in a macro that makes a test of each.
macro_rules! every_case {
    ($test:ident) => {
        $test! {
            reports::a_first_report_is_judged_kept_and_answered,
            reports::the_same_report_again_gets_the_stored_answer,
            reports::another_body_under_the_same_attempt_is_a_conflict,
            reports::without_a_number_the_same_words_are_a_resend_until_the_retry_is_due,
            reports::gaps_in_attempts_count_towards_the_budget,
            reports::a_failure_reopens_a_closed_run,
            reports::a_payload_comes_back_byte_for_byte,
            reports::a_run_whose_payload_was_omitted_is_rejected_where_workers_retry,
            reports::sixty_four_at_once_are_recorded_once,
            reports::a_new_pattern_is_new_once_and_counted_for_its_tenant,
            reports::a_resend_after_the_retry_has_succeeded_opens_nothing,
            starts::whoever_enqueues_again_gets_nobodys_lease,
            starts::a_start_gets_a_lease_and_the_same_start_id_the_same_one,
            starts::a_scheduled_run_starts_when_it_is_due_and_not_before,
            starts::a_caller_may_start_before_the_due_time,
            starts::a_dead_run_refuses_a_start_with_its_verdict,
            starts::a_closed_run_answers_with_its_output_and_no_lease,
            starts::another_payload_under_the_same_run_is_a_conflict,
            sent::what_an_attempt_got_is_kept_beside_the_original,
            sent::a_lease_that_is_over_keeps_nothing,
            sent::a_released_attempt_that_goes_out_again_got_what_it_got_last,
            sent::the_same_start_again_gets_the_same_payload,
            sent::another_tenants_attempt_is_not_found,
            sent::the_last_error_goes_with_the_change_that_asks_for_it,
            sent::a_run_that_can_never_fit_is_a_dead_letter_from_the_beginning,
            sent::a_queues_policy_is_what_was_set_last_and_asking_makes_no_queue,
            leases::ten_of_a_small_tenant_come_within_twenty_of_ten_thousand,
            leases::turns_go_on_where_the_last_call_stopped,
            leases::runs_of_one_order_key_go_out_one_at_a_time,
            leases::an_agent_gets_only_what_it_can_do,
            leases::an_answer_holds_at_most_its_bytes_but_at_least_one_run,
            leases::a_queue_whose_caller_retries_is_never_leased,
            workers::a_heartbeat_renews_and_a_late_one_is_refused,
            workers::success_recovers_a_run_that_had_failed,
            workers::the_same_end_again_gets_the_stored_answer,
            workers::an_old_epoch_changes_nothing_by_any_verb,
            workers::a_lease_with_another_number_changes_nothing_of_anybodys,
            workers::a_late_success_counts_until_somebody_begins_anew,
            workers::a_late_failure_is_kept_as_evidence,
            workers::a_released_attempt_keeps_its_number_and_waits_longer_each_time,
            workers::the_twentieth_release_in_a_row_is_a_failure,
            workers::a_cancelled_worker_is_told_so_and_may_still_succeed,
            workers::a_committed_step_comes_back_and_an_open_effect_is_in_doubt,
            workers::an_effect_key_open_in_another_run_is_refused,
            workers::the_outcome_of_an_effect_is_recorded_late,
            workers::a_caller_reports_success_without_a_lease,
            triage::a_replay_gives_a_fresh_budget,
            triage::closed_runs_open_only_by_force,
            triage::effects_guard_a_replay,
            triage::resolve_discard_and_note_are_in_the_history_with_actor_and_reason,
            triage::replays_are_capped,
            patterns::a_resolved_pattern_seen_again_is_a_regression,
            patterns::an_attempt_from_before_the_resolve_is_no_regression,
            patterns::a_report_of_an_attempt_that_began_before_the_resolve_is_no_regression,
            patterns::a_fix_in_a_version_regresses_on_it_or_a_newer_one_and_on_no_older,
            patterns::a_worker_says_its_versions_when_it_begins,
            patterns::sixty_four_first_sights_at_once_make_one_pattern,
            patterns::a_merge_adds_the_figures_and_taking_it_back_restores_them,
            patterns::a_merged_pattern_is_acted_on_where_it_went,
            patterns::acts_are_recorded_with_actor_and_reason,
            patterns::a_mute_ends_by_itself,
            patterns::over_all_tenants_an_act_on_a_fingerprint_is_each_tenants,
            patterns::another_tenants_pattern_is_not_found,
            patterns::failures_are_told_by_the_hour_for_seven_days,
            patterns::lists_are_narrowed_and_sorted,
            decisions::a_fallback_queue_gets_the_run_and_its_counters,
            decisions::a_refused_success_is_a_failure_and_the_same_again_gets_its_answer,
            decisions::what_a_tenants_retries_use_is_summed_by_the_day,
            engine::a_run_left_alone_becomes_a_silent_failure,
            engine::our_own_absence_extends_a_lease_once,
            engine::an_idle_attempt_and_a_passed_deadline_are_timeouts,
            engine::a_run_that_nobody_begins_is_rejected,
            engine::three_silences_in_a_row_are_poison,
            reads::counts_follow_every_move,
            reads::a_scope_sees_only_its_own,
            reads::colliding_names_of_two_tenants_never_meet,
            reads::changes_name_each_moved_run_once,
            reads::health_names_a_queue_that_nobody_leases,
        }
    };
}

/// SQLite, in a folder of its own.
mod sqlite {
    use super::*;

    macro_rules! tests {
        ($($module:ident::$case:ident,)*) => {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $module::$case(World::sqlite()).await;
                }
            )*
        };
    }

    every_case!(tests);
}
